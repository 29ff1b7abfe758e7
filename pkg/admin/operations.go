package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
)

// Letters are the dead letters; stream.Letters implements it.
type Letters interface {
	List(ctx context.Context, after uint64, limit int) (stream.LetterPage, error)
	Letter(ctx context.Context, id uint64) (stream.Letter, error)
	Replay(ctx context.Context, id uint64) (stream.Ack, error)
}

// DeadLetters returns a page of the dead letters after the ID given, the oldest
// first.
func (s *Service) DeadLetters(ctx context.Context, after uint64, limit int) (stream.LetterPage, error) {
	return s.deps.Letters.List(ctx, after, limit)
}

// DeadLetter returns one dead letter with its message. The error is
// stream.ErrNoLetter where there is none.
func (s *Service) DeadLetter(ctx context.Context, id uint64) (stream.Letter, error) {
	return s.deps.Letters.Letter(ctx, id)
}

// ReplayDeadLetter publishes the message of a dead letter again on the stream
// that it came from, and deletes the letter. With every error but
// stream.ErrNotRemoved the letter stays and nothing was published.
func (s *Service) ReplayDeadLetter(ctx context.Context, caller Caller, id uint64) error {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	_, err := s.deps.Letters.Replay(ctx, id)
	if err == nil || errors.Is(err, stream.ErrNotRemoved) {
		s.record(ctx, caller, LetterReplayed, project.Project{}, strconv.FormatUint(id, 10))
	}
	return err
}

// Result is a part of the installation's state, or why it could not be read.
type Result[T any] struct {
	Value T
	Err   error
}

// Installation is the state of everything that keeps records moving.
type Installation struct {
	Shards       Result[[]ledger.ShardState]
	Members      Result[[]lease.Process]
	DeadLetters  Result[stream.LetterPage]
	Tables       Result[[]clickhouse.TableSize]
	Batches      Result[clickhouse.Batches]       // of the current hour
	Sizes        Result[[]clickhouse.ProjectSize] // of what was stored in the last 30 days
	Destinations Result[[]clickhouse.DestinationState]
	ProjectNames Result[map[string]string] // by ID
	Audit        Result[ledger.Audit]
}

// The time that the state of an installation covers.
const (
	sizesSince        = 30 * 24 * time.Hour
	destinationsSince = 24 * time.Hour
)

// Installation reads the state of the installation, all parts at once. The dead
// letters are up to limit of those after the ID given.
func (s *Service) Installation(ctx context.Context, after uint64, limit int, now time.Time) Installation {
	var found Installation
	var group sync.WaitGroup
	readInto(&group, &found.Shards, func() ([]ledger.ShardState, error) { return fromQueue(ledger.Shards(ctx, s.deps.Queue)) })
	readInto(&group, &found.Members, func() ([]lease.Process, error) { return fromQueue(lease.Processes(ctx, s.deps.Queue)) })
	readInto(&group, &found.DeadLetters, func() (stream.LetterPage, error) { return fromQueue(s.deps.Letters.List(ctx, after, limit)) })
	readInto(&group, &found.Audit, func() (ledger.Audit, error) { return fromQueue(ledger.LastAudit(ctx, s.deps.Queue)) })
	readInto(&group, &found.Tables, func() ([]clickhouse.TableSize, error) { return s.deps.Reader.TableSizes(ctx) })
	readInto(&group, &found.Batches, func() (clickhouse.Batches, error) { return s.deps.Reader.BatchesSince(ctx, now) })
	readInto(&group, &found.Sizes, func() ([]clickhouse.ProjectSize, error) {
		return s.deps.Reader.ProjectSizes(ctx, now.Add(-sizesSince))
	})
	readInto(&group, &found.Destinations, func() ([]clickhouse.DestinationState, error) {
		return s.deps.Reader.Destinations(ctx, now.Add(-destinationsSince))
	})
	readInto(&group, &found.ProjectNames, func() (map[string]string, error) { return s.projectNames(ctx) })
	group.Wait()
	return found
}

func readInto[T any](group *sync.WaitGroup, into *Result[T], read func() (T, error)) {
	group.Go(func() { into.Value, into.Err = read() })
}

// fromQueue marks an error of the queue as project.ErrUnavailable.
func fromQueue[T any](value T, err error) (T, error) {
	if err != nil {
		err = fmt.Errorf("%w: %w", project.ErrUnavailable, err)
	}
	return value, err
}

func (s *Service) projectNames(ctx context.Context) (map[string]string, error) {
	names, after := map[string]string{}, ""
	for {
		page, err := s.deps.Projects.Projects(ctx, after, 0)
		if err != nil || len(page) == 0 {
			return names, err
		}
		for _, one := range page {
			names[one.ID] = one.Name
		}
		after = page[len(page)-1].Name
	}
}
