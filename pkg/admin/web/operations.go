package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
)

// operationsView is the state of the installation.
type operationsView struct {
	Diagnosis string
	State     string // ok, warn or error: the worst
	Tiles     []tile
	Shards    []shardRow
	Engines   []engineRow
	Chats     []chatRow
	Letters   []letterRow
	Older     string // address of the next page of letters, or ""
	Members   []memberRow
	Drift     int // number of processes that do not run the newest version
	Projects  []sizeRow
	Tables    []tableRow
	Problems  []string
}

// tile is a number with its meaning.
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

// engineRow is NATS or ClickHouse.
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
	Other                                        bool // it does not run the newest version
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

const lettersPerPage = 20

// How old the oldest message of a shard may be before the page warns, and
// before it shows an error.
const (
	lateAfter     = 10 * time.Second
	veryLateAfter = 2 * time.Minute
)

// operationsPage shows everything that keeps the records moving. It says which
// parts could not be read and shows the others.
func (p *Pages) operationsPage(r *request) error {
	ctx, cancel := r.querying()
	defer cancel()
	now := p.now().UTC()
	after, _ := strconv.ParseUint(r.QueryParam("after"), 10, 63) // a malformed one is the beginning
	found := p.service.Installation(ctx, after, lettersPerPage, now)
	v := &operationsView{State: "ok"}
	v.addShards(found, now)
	v.addMembers(found, now)
	v.addLetters(found)
	v.addTables(found)
	v.addDestinations(found)
	v.addAudit(found)
	v.addTiles(found, now)
	v.Diagnosis = v.diagnosis()
	return r.render("operations", view{Title: "Operations", Tab: "operations", Body: v})
}

// raise makes the state of the page at least as bad as the one given.
func (v *operationsView) raise(state string) {
	if rank(state) > rank(v.State) {
		v.State = state
	}
}

// missing adds that a part could not be read.
func (v *operationsView) missing(what string, err error) {
	v.raise("error")
	v.Problems = append(v.Problems, what+": "+problemText(err))
}

func (v *operationsView) addShards(found admin.Installation, now time.Time) {
	queue := engineRow{"NATS JetStream", "queue", "ok", "accepting"}
	if err := found.Shards.Err; err != nil {
		v.missing("The queue could not be read", err)
		queue.State, queue.Text = "error", "does not answer"
	}
	v.Engines = append(v.Engines, queue)
	for _, s := range found.Shards.Value {
		row := shardRow{Name: s.Stream, State: "ok", Waiting: s.Waiting, Bytes: s.Bytes, Lag: "0 s"}
		if s.MaxBytes > 0 {
			row.Percent = int(min(100, s.Bytes*100/uint64(s.MaxBytes)))
			row.Fill = formatBytes(s.Bytes) + " of " + formatBytes(uint64(s.MaxBytes))
		}
		if late := now.Sub(s.Oldest); !s.Oldest.IsZero() && late > 0 {
			row.Lag = lengthText(late)
			switch {
			case late > veryLateAfter:
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
		v.raise(row.State)
		v.Shards = append(v.Shards, row)
	}
}

func (v *operationsView) addMembers(found admin.Installation, now time.Time) {
	if err := found.Members.Err; err != nil {
		v.missing("The processes could not be read", err)
	}
	newest := ""
	var begun time.Time
	for _, m := range found.Members.Value {
		if m.Started.After(begun) {
			begun, newest = m.Started, m.Version
		}
	}
	for _, m := range found.Members.Value {
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
		v.raise(row.State)
		v.Members = append(v.Members, row)
	}
}

func (v *operationsView) addLetters(found admin.Installation) {
	if err := found.DeadLetters.Err; err != nil {
		v.missing("The dead letters could not be read", err)
	}
	page := found.DeadLetters.Value
	for _, one := range page.Letters {
		v.Letters = append(v.Letters, newLetterRow(one))
	}
	if page.Next != 0 {
		v.Older = operationsPath + "?after=" + strconv.FormatUint(page.Next, 10)
	}
	if len(v.Letters) > 0 {
		v.raise("warn")
	}
}

func newLetterRow(one stream.Letter) letterRow {
	return letterRow{
		ID: one.ID, At: one.Time.UTC(), Stream: printable(one.Stream), Reason: reasonText(printable(one.Reason)), Detail: printable(one.Detail),
		Size: formatBytes(uint64(one.Bytes)), Replayable: one.Seq != 0,
	}
}

func (v *operationsView) addTables(found admin.Installation) {
	store := engineRow{"ClickHouse", "log storage", "ok", "writing"}
	if err := found.Tables.Err; err != nil {
		v.missing("The tables could not be read", err)
		store.State, store.Text = "error", "does not answer"
	}
	v.Engines = append(v.Engines, store)
	for _, t := range found.Tables.Value {
		row := tableRow{TableSize: t, Ratio: "1"}
		if t.Bytes > 0 {
			row.Ratio = strconv.FormatFloat(float64(t.Plain)/float64(t.Bytes), 'f', 1, 64)
		}
		v.Tables = append(v.Tables, row)
	}
	if err := found.Sizes.Err; err != nil {
		v.missing("The projects' sizes could not be read", err)
	}
	if err := found.ProjectNames.Err; err != nil {
		v.missing("The projects' names could not be read", err)
	}
	most := uint64(1)
	for _, one := range found.Sizes.Value {
		most = max(most, one.Bytes)
		name, ok := found.ProjectNames.Value[one.Project]
		if !ok {
			name = "deleted, " + one.Project
		}
		v.Projects = append(v.Projects, sizeRow{name, one.Records, one.Bytes, int(one.Bytes * 100 / most)})
	}
}

func (v *operationsView) addDestinations(found admin.Installation) {
	if err := found.Destinations.Err; err != nil {
		v.missing("The destinations could not be read", err)
	}
	for _, c := range found.Destinations.Value {
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
		v.raise(row.State)
		v.Chats = append(v.Chats, row)
	}
}

// addAudit adds what the last audit of the stored rows has found.
func (v *operationsView) addAudit(found admin.Installation) {
	if err := found.Audit.Err; err != nil {
		v.missing("The last audit could not be read", err)
	}
	audit := found.Audit.Value
	for _, f := range audit.Findings {
		v.raise("error")
		v.Problems = append(v.Problems, fmt.Sprintf("The audit at %s UTC found %d rows missing, %d doubled and %d messages ahead of the ledger in %s, messages %d to %d. docs/operations.md says what to do.",
			audit.At.UTC().Format("15:04"), f.Missing, f.Doubled, f.Ahead, printable(f.Stream), f.From, f.To))
	}
	if audit.BrokenParts > 0 {
		v.raise("error")
		v.Problems = append(v.Problems, fmt.Sprintf("ClickHouse has put %d broken parts aside: their rows are missing.", audit.BrokenParts))
	}
}

// addTiles adds the four numbers at the top.
func (v *operationsView) addTiles(found admin.Installation, now time.Time) {
	b := found.Batches.Value
	if err := found.Batches.Err; err != nil {
		v.missing("The batches could not be counted", err)
	}
	elapsed := max(1, now.Sub(now.Truncate(time.Hour)).Seconds())
	waiting, oldest, state := uint64(0), "nothing waits", "ok"
	late := time.Duration(0)
	for i, s := range found.Shards.Value {
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
	lost := "ok"
	if b.Dropped > 0 {
		lost = "warn"
	}
	letters, causes, dead := formatNumber(uint64(len(v.Letters))), "everything was stored", "ok"
	if v.Older != "" {
		letters += "+"
	}
	if len(v.Letters) > 0 {
		reasons := map[string]bool{}
		for _, one := range v.Letters {
			reasons[one.Reason] = true
		}
		causes, dead = plural(len(reasons), "cause"), "error"
	}
	v.Tiles = []tile{
		{"Stored", formatCount(uint64(float64(b.Records)/elapsed)) + " /s", formatCount(b.Dropped) + " refused or dropped this hour", lost},
		{"Queue", formatCount(waiting), oldest, state},
		{"Writer batches", formatCount(b.Batches), size + ", this hour", "ok"},
		{"Dead letters", letters, causes, dead},
	}
}

// diagnosis sums the state up in a sentence or two, the worst first.
func (v *operationsView) diagnosis() string {
	if len(v.Problems) > 0 {
		return v.Problems[0]
	}
	var parts []string
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
			parts = append(parts, plural(n, noun)+text)
		}
	}
	add(full, "shard", " nearly full: the writer does not keep up")
	add(late, "shard", " behind; nothing is lost so far")
	add(unready, "process", " not ready")
	add(len(v.Letters), "dead letter", " to check")
	add(v.Drift, "process", " on an older version")
	if len(parts) == 0 {
		return "Accepting and storing. Nothing is waiting, nothing is lost."
	}
	return "Accepting. " + strings.Join(parts, "; ") + "."
}

// letterView is one dead letter with its content.
type letterView struct {
	letterRow
	Subject string
	Seq     uint64
	Records []letterRecord
	Raw     []piece // of a message that cannot be decoded
	More    bool    // the message contains more than is shown
	Fault   string
}

// letterRecord is one record of a letter.
type letterRecord struct {
	At      time.Time
	Project string
	Kind    string
	Text    []piece
}

// Bounds of what the page of a dead letter shows.
const (
	shownRecords = 100
	shownRaw     = 16 << 10 // bytes
)

// letterPage shows the content of a dead letter.
func (p *Pages) letterPage(r *request) error {
	id, err := strconv.ParseUint(r.Param("letter"), 10, 63)
	if err != nil {
		return errGone
	}
	ctx, cancel := r.querying()
	defer cancel()
	found, err := p.service.DeadLetter(ctx, id)
	if errors.Is(err, stream.ErrNoLetter) {
		return errGone
	}
	if err != nil {
		return fmt.Errorf("%w: %w", project.ErrUnavailable, err)
	}
	v := &letterView{letterRow: newLetterRow(found), Subject: printable(found.Subject), Seq: found.Seq}
	v.decode(found.Data)
	return r.render("letter", view{Title: "Dead letter " + r.Param("letter"), Tab: "operations", Body: v})
}

// decode adds the records of a message, or its bytes if it cannot be decoded.
func (v *letterView) decode(data []byte) {
	var reader record.Reader
	reader.Reset(data)
	for {
		section, err := reader.NextSection()
		if section == nil || err != nil {
			if err != nil {
				v.Fault = printable(err.Error())
			}
			break
		}
		if !v.decodeSection(section) {
			break
		}
	}
	if len(v.Records) == 0 {
		v.More = len(data) > shownRaw
		v.Raw = safeText(strings.ToValidUTF8(string(data[:min(len(data), shownRaw)]), "\ufffd"), nil)
	}
}

// decodeSection adds the records of a section. It returns false when enough
// records are shown or the rest cannot be decoded.
func (v *letterView) decodeSection(s *record.Section) bool {
	for {
		if len(v.Records) == shownRecords {
			v.More = true
			return false
		}
		shown := letterRecord{Project: printable(s.Project), Kind: "log"}
		var l record.Log
		var e record.Event
		var d record.Drop
		var ok bool
		var err error
		switch s.Kind {
		case record.KindLog:
			ok, err = s.NextLog(&l)
			shown.At, shown.Text = time.Unix(0, l.Timestamp).UTC(), safeText(cutText(l.Data, rowBytes), nil)
		case record.KindEvent:
			ok, err = s.NextEvent(&e)
			shown.Kind, shown.At, shown.Text = "event", time.Unix(0, e.Timestamp).UTC(), safeText(cutText(e.Title, rowBytes), nil)
		default:
			ok, err = s.NextDrop(&d)
			shown.Kind, shown.Text = "count of refused records", safeText(fmt.Sprintf("%d", d.Records), nil)
		}
		if err != nil {
			v.Fault = printable(err.Error())
			return false
		}
		if !ok {
			return true
		}
		v.Records = append(v.Records, shown)
	}
}

// maxReplayed bounds the letters of one form.
const maxReplayed = 100

// replayLetters publishes the messages of the selected letters again.
func (p *Pages) replayLetters(r *request) error {
	ids := r.form["id"]
	for _, text := range ids[:min(len(ids), maxReplayed)] {
		id, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			continue
		}
		err = p.service.ReplayDeadLetter(r.Request().Context(), r.caller, id)
		if err != nil && !errors.Is(err, stream.ErrNoLetter) {
			return r.notReplayed(text, err)
		}
	}
	return r.goTo(operationsPath + "?done=letters-replayed")
}

// notReplayed shows why a letter was not replayed.
func (r *request) notReplayed(id string, err error) error {
	if errors.Is(err, stream.ErrUnavailable) || errors.Is(err, stream.ErrBusy) {
		return fmt.Errorf("%w: %w", project.ErrUnavailable, err)
	}
	telemetry.SetCode(r, "not_replayable")
	refused := refusal{http.StatusConflict, "not_replayable", "Dead letter " + id + " was not replayed", sentence(err.Error()) + " It stays among the dead letters."}
	return r.renderStatus(refused.Status, "error", view{Title: refused.Title, Tab: "operations", Body: refused})
}
