package web

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
)

// Queue shows the queue and the processes around it; stream.Overview does.
type Queue interface {
	Shards(ctx context.Context) ([]stream.ShardState, error)
	Members(ctx context.Context) ([]stream.Member, error)
}

// Letters are the messages that could not be stored; stream.Letters are.
type Letters interface {
	List(ctx context.Context, after uint64, limit int) (stream.LetterPage, error)
	Letter(ctx context.Context, id uint64) (stream.Letter, error)
	Replay(ctx context.Context, id uint64) (stream.Ack, error)
}

// Engine shows what the database holds of all projects; clickhouse.Client does.
type Engine interface {
	Ping(ctx context.Context) error
	TableSizes(ctx context.Context) ([]clickhouse.TableSize, error)
	BatchesSince(ctx context.Context, since time.Time) (clickhouse.Batches, error)
	ProjectSizes(ctx context.Context, since time.Time) ([]clickhouse.ProjectSize, error)
	Destinations(ctx context.Context, since time.Time) ([]clickhouse.DestinationState, error)
}

// operationsView is how the installation is doing.
type operationsView struct {
	Diagnosis string
	State     string // ok, warn or error: the worst
	Tiles     []tile
	Shards    []shardRow
	Engines   []engineRow
	Chats     []chatRow
	Letters   []letterRow
	Older     string // where the next page of letters begins, or none
	Members   []memberRow
	Drift     int // processes of another version than this one's
	Projects  []sizeRow
	Tables    []tableRow
	Problems  []string
}

// tile is a number with what it means.
type tile struct {
	Name, Value, Note, State string
}

// shardRow is a stream of the queue.
type shardRow struct {
	Name, State, Fill, Lag string
	Waiting                uint64
	Percent                int
	Bytes                  uint64
}

// engineRow is one of the engines.
type engineRow struct {
	Name, Kind, State, Text string
}

// chatRow is a destination of notifications.
type chatRow struct {
	Name, Kind, State, Text string
	Delivered, Failed       uint64
}

// letterRow is a dead letter.
type letterRow struct {
	ID                           uint64
	At                           time.Time
	Stream, Reason, Detail, Size string
	Replayable                   bool
}

// memberRow is a process.
type memberRow struct {
	Name, Host, Version, Ops, Up, State, Unready string
	Other                                        bool // its version is not this one's
}

// sizeRow is a project's share of what was stored.
type sizeRow struct {
	Name    string
	Records uint64
	Bytes   uint64
	Percent int
}

// tableRow is a table of the database.
type tableRow struct {
	clickhouse.TableSize
	Ratio string
}

// Of the page.
const (
	lettersPerPage = 20
	sizesSince     = 30 * 24 * time.Hour
	chatsSince     = 24 * time.Hour
	lateAfter      = 10 * time.Second // a shard whose oldest message waits for longer
	veryLate       = 2 * time.Minute
)

// looked is what the page asked for, each with its error.
type looked struct {
	shards   *later[[]stream.ShardState]
	members  *later[[]stream.Member]
	letters  *later[stream.LetterPage]
	tables   *later[[]clickhouse.TableSize]
	batches  *later[clickhouse.Batches]
	projects *later[[]clickhouse.ProjectSize]
	chats    *later[[]clickhouse.DestinationState]
	names    *later[map[string]string]
}

// operationsPage shows all that keeps the records moving. What cannot be read
// is told of, and the rest is shown.
func (p *Pages) operationsPage(r *request) error {
	ctx, cancel := r.asking()
	defer cancel()
	now := p.now().UTC()
	after, _ := strconv.ParseUint(r.QueryParam("after"), 10, 63) // what is none is the begin
	var group sync.WaitGroup
	defer group.Wait()
	l := p.look(ctx, &group, after, now)
	v := &operationsView{State: "ok"}
	v.showShards(l, now)
	v.showMembers(l, now)
	v.showLetters(l)
	v.showStore(l)
	v.showChats(l)
	v.tiles(l, now)
	v.Diagnosis = v.diagnose()
	return r.render("operations", view{Title: "Operations", Tab: "operations", Body: v})
}

// look asks for everything at once.
func (p *Pages) look(ctx context.Context, group *sync.WaitGroup, after uint64, now time.Time) *looked {
	return &looked{
		shards:   askLater(group, func() ([]stream.ShardState, error) { return p.deps.Queue.Shards(ctx) }),
		members:  askLater(group, func() ([]stream.Member, error) { return p.deps.Queue.Members(ctx) }),
		letters:  askLater(group, func() (stream.LetterPage, error) { return p.deps.Letters.List(ctx, after, lettersPerPage) }),
		tables:   askLater(group, func() ([]clickhouse.TableSize, error) { return p.deps.Engine.TableSizes(ctx) }),
		batches:  askLater(group, func() (clickhouse.Batches, error) { return p.deps.Engine.BatchesSince(ctx, now) }),
		projects: askLater(group, func() ([]clickhouse.ProjectSize, error) { return p.deps.Engine.ProjectSizes(ctx, now.Add(-sizesSince)) }),
		chats: askLater(group, func() ([]clickhouse.DestinationState, error) {
			return p.deps.Engine.Destinations(ctx, now.Add(-chatsSince))
		}),
		names: askLater(group, func() (map[string]string, error) { return p.projectNames(ctx) }),
	}
}

// projectNames are the names of all projects by ID.
func (p *Pages) projectNames(ctx context.Context) (map[string]string, error) {
	names, after := map[string]string{}, ""
	for {
		page, err := p.deps.Directory.Projects(ctx, after, 0)
		if err != nil || len(page) == 0 {
			return names, err
		}
		for _, one := range page {
			names[one.ID] = one.Name
		}
		after = page[len(page)-1].Name
	}
}

// worse raises the state of the page.
func (v *operationsView) worse(state string) {
	if rank(state) > rank(v.State) {
		v.State = state
	}
}

// missing tells of what could not be read.
func (v *operationsView) missing(what string, err error) {
	v.worse("error")
	v.Problems = append(v.Problems, what+": "+problemText(err))
}

func (v *operationsView) showShards(l *looked, now time.Time) {
	shards, err := l.shards.wait()
	queue := engineRow{"NATS JetStream", "queue", "ok", "accepting"}
	if err != nil {
		v.missing("The queue could not be read", fmt.Errorf("%w: %w", project.ErrUnavailable, err))
		queue.State, queue.Text = "error", "does not answer"
	}
	v.Engines = append(v.Engines, queue)
	for _, s := range shards {
		row := shardRow{Name: s.Stream, State: "ok", Waiting: s.Waiting, Bytes: s.Bytes, Lag: "0 s"}
		if s.MaxBytes > 0 {
			row.Percent = int(min(100, s.Bytes*100/uint64(s.MaxBytes)))
			row.Fill = formatBytes(s.Bytes) + " of " + formatBytes(uint64(s.MaxBytes))
		}
		if late := now.Sub(s.Oldest); !s.Oldest.IsZero() && late > 0 {
			row.Lag = lengthText(late)
			switch {
			case late > veryLate:
				row.State = "error"
			case late > lateAfter:
				row.State = "warn"
			}
		}
		switch {
		case row.Percent >= 95:
			row.State = "error"
		case row.Percent >= 80 && row.State == "ok":
			row.State = "warn"
		}
		v.worse(row.State)
		v.Shards = append(v.Shards, row)
	}
}

func (v *operationsView) showMembers(l *looked, now time.Time) {
	members, err := l.members.wait()
	if err != nil {
		v.missing("The processes could not be read", fmt.Errorf("%w: %w", project.ErrUnavailable, err))
	}
	newest := ""
	var begun time.Time
	for _, m := range members {
		if m.Started.After(begun) {
			begun, newest = m.Started, m.Version
		}
	}
	for _, m := range members {
		row := memberRow{Name: printable(m.Name), Host: printable(m.Host), Version: printable(m.Version), Ops: printable(m.Ops), Up: lengthText(now.Sub(m.Started).Truncate(time.Minute)), State: "ok", Unready: printable(m.Unready), Other: m.Version != newest}
		if now.Sub(m.Started) < time.Minute {
			row.Up = lengthText(now.Sub(m.Started))
		}
		if row.Other {
			v.Drift++
			row.State = "warn"
		}
		if m.Unready != "" {
			row.State = "error"
		}
		v.worse(row.State)
		v.Members = append(v.Members, row)
	}
}

func (v *operationsView) showLetters(l *looked) {
	page, err := l.letters.wait()
	if err != nil {
		v.missing("The dead letters could not be read", fmt.Errorf("%w: %w", project.ErrUnavailable, err))
	}
	for _, one := range page.Letters {
		v.Letters = append(v.Letters, newLetterRow(one))
	}
	if page.Next != 0 {
		v.Older = operationsPath + "?after=" + strconv.FormatUint(page.Next, 10)
	}
	if len(v.Letters) > 0 {
		v.worse("warn")
	}
}

func newLetterRow(one stream.Letter) letterRow {
	return letterRow{
		ID: one.ID, At: one.Time.UTC(), Stream: printable(one.Stream), Reason: reasonText(printable(one.Reason)), Detail: printable(one.Detail),
		Size: formatBytes(uint64(one.Bytes)), Replayable: one.Seq != 0,
	}
}

func (v *operationsView) showStore(l *looked) {
	store := engineRow{"ClickHouse", "log storage", "ok", "writing"}
	tables, err := l.tables.wait()
	if err != nil {
		v.missing("The tables could not be read", err)
		store.State, store.Text = "error", "does not answer"
	}
	v.Engines = append(v.Engines, store)
	for _, t := range tables {
		row := tableRow{TableSize: t, Ratio: "1"}
		if t.Bytes > 0 {
			row.Ratio = strconv.FormatFloat(float64(t.Plain)/float64(t.Bytes), 'f', 1, 64)
		}
		v.Tables = append(v.Tables, row)
	}
	projects, err := l.projects.wait()
	if err != nil {
		v.missing("The projects' sizes could not be read", err)
	}
	names, err := l.names.wait()
	if err != nil {
		v.missing("The projects' names could not be read", err)
	}
	most := uint64(1)
	for _, one := range projects {
		most = max(most, one.Bytes)
		name, ok := names[one.Project]
		if !ok {
			name = "deleted, " + one.Project
		}
		v.Projects = append(v.Projects, sizeRow{name, one.Records, one.Bytes, int(one.Bytes * 100 / most)})
	}
}

func (v *operationsView) showChats(l *looked) {
	chats, err := l.chats.wait()
	if err != nil {
		v.missing("The destinations could not be read", err)
	}
	for _, c := range chats {
		row := chatRow{Name: printable(c.Destination), Kind: formatName(c.Format), Delivered: c.Delivered, Failed: c.Failed, State: "ok", Text: "delivering"}
		switch c.State {
		case "failed":
			row.State, row.Text = "error", "gave up"
		case "attempt":
			row.State, row.Text = "warn", "retrying"
		case "queued":
			row.Text = "waiting"
		}
		if c.Status >= 300 && row.State != "ok" {
			row.Text = strconv.Itoa(c.Status) + ", " + row.Text
		}
		v.worse(row.State)
		v.Chats = append(v.Chats, row)
	}
}

// tiles are the four numbers at the top.
func (v *operationsView) tiles(l *looked, now time.Time) {
	b, err := l.batches.wait()
	if err != nil {
		v.missing("The batches could not be counted", err)
	}
	elapsed := max(1, now.Sub(now.Truncate(time.Hour)).Seconds())
	waiting, oldest, state := uint64(0), "nothing waits", "ok"
	late := time.Duration(0)
	shards, _ := l.shards.wait() // its error was told
	for i, s := range shards {
		waiting += s.Waiting
		if rank(v.Shards[i].State) > rank(state) {
			state = v.Shards[i].State
		}
		if !s.Oldest.IsZero() {
			late = max(late, now.Sub(s.Oldest))
			oldest = "oldest " + lengthText(late)
		}
	}
	size := "none yet this hour"
	if b.Batches > 0 {
		size = formatCount(b.Records/b.Batches) + " records each"
	}
	letters, dead := formatNumber(uint64(len(v.Letters))), "ok"
	if v.Older != "" {
		letters += "+"
	}
	if len(v.Letters) > 0 {
		dead = "error"
	}
	lost := tileState(b.Dropped == 0)
	v.Tiles = []tile{
		{"Stored", formatCount(uint64(float64(b.Records)/elapsed)) + " /s", formatCount(b.Dropped) + " refused or dropped this hour", lost},
		{"Queue", formatCount(waiting), oldest, state},
		{"Writer batches", formatCount(b.Batches), size + ", this hour", "ok"},
		{"Dead letters", letters, causesOf(v.Letters), dead},
	}
}

func tileState(good bool) string {
	if good {
		return "ok"
	}
	return "warn"
}

// causesOf counts the letters' reasons.
func causesOf(letters []letterRow) string {
	reasons := map[string]bool{}
	for _, one := range letters {
		reasons[one.Reason] = true
	}
	if len(reasons) == 0 {
		return "everything was stored"
	}
	return plural(len(reasons), "cause")
}

// diagnose says in a sentence or two how it is, the worst first.
func (v *operationsView) diagnose() string {
	if len(v.Problems) > 0 {
		return v.Problems[0]
	}
	var said []string
	late, full := 0, 0
	for _, s := range v.Shards {
		if s.State != "ok" && s.Percent >= 80 {
			full++
		} else if s.State != "ok" {
			late++
		}
	}
	unready := 0
	for _, m := range v.Members {
		if m.Unready != "" {
			unready++
		}
	}
	add := func(n int, noun, text string) {
		if n > 0 {
			said = append(said, plural(n, noun)+text)
		}
	}
	add(full, "shard", " nearly full: storing does not keep up")
	add(late, "shard", " behind, nothing is lost so far")
	add(unready, "process", " not ready")
	add(len(v.Letters), "dead letter", " to look at")
	add(v.Drift, "process", " on an older version")
	if len(said) == 0 {
		return "Accepting and storing. Nothing waits, nothing is lost."
	}
	return "Accepting. " + strings.Join(said, "; ") + "."
}
