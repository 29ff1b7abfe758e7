package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/record"
)

func FuzzRedact(f *testing.F) {
	f.Add("nats://canary@host:4222,nats://user:canary@other")
	f.Add("canary@host")
	f.Add("nats://user:canary%zz@host")
	f.Fuzz(func(t *testing.T, address string) {
		if strings.Count(address, "canary") != strings.Count(address, "canary@") {
			return // the word stands elsewhere than before a host
		}
		shown, err := redact(address)
		if err != nil {
			shown = err.Error()
		}
		if strings.Contains(shown, "canary") {
			t.Fatalf("%q is shown as %q", address, shown)
		}
	})
}

func TestRouteSpreadsProjectsAndKeepsKeysAndEvents(t *testing.T) {
	t.Parallel()
	const shards, projects = 4, 4000
	var seen [shards]int
	for i := range projects {
		m := Message{Kind: record.KindEvent, Project: "project-" + string(rune('a'+i%26)) + strings.Repeat("x", i/26)}
		seen[route(&m, 0, shards)]++
		if route(&m, 7, shards) != route(&m, 0, shards) {
			t.Fatal("an event's shard depends on the rolling part")
		}
		m.Kind, m.ID = record.KindLog, "key"
		if route(&m, 7, shards) != route(&m, 0, shards) {
			t.Fatal("a keyed log's shard depends on the rolling part")
		}
	}
	for shard, n := range seen {
		if n < projects/shards*8/10 {
			t.Errorf("shard %d got %d of %d projects", shard, n, projects)
		}
	}
}

func TestMessageIDsOfProjectsDiffer(t *testing.T) {
	t.Parallel()
	if messageID("a", "bc") == messageID("ab", "c") {
		t.Error("the project and the key are not kept apart")
	}
}

func TestServerErrorsHaveTheirClass(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		api  jetstream.APIError
		want error
	}{
		"stream full":         {jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum bytes exceeded"}, ErrFull},
		"message above store": {jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "message to store too large"}, ErrTooLarge},
		"server full":         {jetstream.APIError{Code: 503, ErrorCode: 10023}, ErrFull},
		"account full":        {jetstream.APIError{Code: 400, ErrorCode: 10002}, ErrFull},
		"message too large":   {jetstream.APIError{Code: 400, ErrorCode: 10054}, ErrTooLarge},
		"stream behind":       {jetstream.APIError{Code: 429, ErrorCode: 10167}, ErrBusy},
		"too many batches":    {jetstream.APIError{Code: 429, ErrorCode: 10210}, ErrBusy},
		"anything else":       {jetstream.APIError{Code: 503, ErrorCode: 10008}, ErrUnavailable},
	} {
		err := refusal(&test.api)
		if !errors.Is(err, test.want) || errors.Is(err, ErrUnknown) || isAway(err) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

func TestErrorsThatPassAreRetried(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no answer":              {fmt.Errorf("x: %w", context.DeadlineExceeded), true},
		"no answer, by nats.go":  {nats.ErrTimeout, true},
		"nobody there":           {jetstream.ErrJetStreamNotEnabled, true},
		"no leader":              {&jetstream.APIError{Code: 503, ErrorCode: 10008}, true},
		"too few servers yet":    {&jetstream.APIError{Code: 400, ErrorCode: 10005}, true},
		"no cluster at all":      {&jetstream.APIError{Code: 500, ErrorCode: 10074}, false},
		"no room":                {&jetstream.APIError{Code: 500, ErrorCode: 10047}, false},
		"a stream of other ways": {errors.New("stream LOGS_0: discard is old"), false},
		"whoever asks gave up":   {context.Canceled, false},
	} {
		if got := notReady(test.err); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestSendErrorsShowWhetherTheMessageWasSent(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errLinkDown)
	for name, test := range map[string]struct {
		ctx     context.Context
		err     error
		want    error
		unknown bool
	}{
		"above the payload":   {t.Context(), nats.ErrMaxPayload, ErrTooLarge, false},
		"nobody there":        {t.Context(), nats.ErrNoResponders, ErrUnavailable, false},
		"not connected":       {t.Context(), nats.ErrReconnectBufExceeded, ErrUnavailable, false},
		"lost while it waits": {ended, context.Canceled, errLinkDown, true},
		"anything else":       {t.Context(), nats.ErrConnectionClosed, ErrUnavailable, true},
	} {
		if err := sendFailure(test.ctx, test.err); !errors.Is(err, test.want) || errors.Is(err, ErrUnknown) != test.unknown {
			t.Errorf("%s: got %v, want %v, unknown %t", name, err, test.want, test.unknown)
		}
	}
}

func TestEveryGuaranteeOfAStreamIsChecked(t *testing.T) {
	t.Parallel()
	topology := &Topology{}
	want := topology.shardConfig(record.KindLog, 0, 4)
	if err := sameGuarantees(want, want); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*jetstream.StreamConfig){
		"subjects":       func(c *jetstream.StreamConfig) { c.Subjects = []string{"logs.1"} },
		"retention":      func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"discard":        func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"storage":        func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"persist mode":   func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"maximum age":    func(c *jetstream.StreamConfig) { c.MaxAge = 1 },
		"limit":          func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 },
		"sealed":         func(c *jetstream.StreamConfig) { c.Sealed = true },
		"deny delete":    func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		"atomic publish": func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
		"direct get":     func(c *jetstream.StreamConfig) { c.AllowDirect = false },
	} {
		have := want
		spoil(&have)
		if err := sameGuarantees(have, want); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
