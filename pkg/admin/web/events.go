package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/query"

	"github.com/logboom/logboom/pkg/record"
)

// eventsView is the list of a project's events.
type eventsView struct {
	Path, API string
	Query     string
	Filter    string      // the query with the channel
	filter    query.Query // without it
	Channel   string
	Title     string
	Fault     *logFault
	Channels  []channelRow
	All       int
	Capped    bool // there are more events than All
	Days      []eventDay
	Older     string
	Detail    *eventDetail
	Rules     string // the address of the alerts
	Problem   string
	Newest    string // the ID of the newest event, for the script
}

// channelRow is a channel with the number of its events among the newest.
type channelRow struct {
	Name, Path string
	Count      int
	Current    bool
	Latest     int64 // time of its newest event, Unix milliseconds
}

// eventDay is the events of a day, newest first.
type eventDay struct {
	Name   string
	Events []eventRow
}

// eventRow is one event.
type eventRow struct {
	ID, Path, Icon, Channel string
	Title, Text             []piece
	Tags                    []string
	At                      time.Time
	State                   *deliveryChip
	Open                    bool
}

// deliveryChip is the state of the event's notification.
type deliveryChip struct {
	State, Icon, Text string // State: ok, warn, error or none
}

// eventDetail is one event with all its fields and the history of its
// notification.
type eventDetail struct {
	eventRow
	Fields []rowField
	Steps  []deliveryStep
	Logs   string // the address of the logs around it
	Close  string
	Asked  bool // the event asked for a notification
	Fault  string
}

// deliveryStep is one entry of a notification's history.
type deliveryStep struct {
	State, Title, Text, Answer string
	At                         time.Time
}

const (
	eventsPerPage  = 50
	countedEvents  = 1000
	countedSince   = 30 * 24 * time.Hour
	eventTagsShown = 8
	aroundEvent    = 150 * time.Second // of logs, before and after it
)

// eventsPage shows a project's events.
func (p *Pages) eventsPage(r *request) error {
	now := p.now().UTC()
	v := &eventsView{
		Path: r.projectPath("/events"), API: "/api/v1" + r.projectPath("/events"), Query: strings.TrimSpace(r.QueryParam("q")),
		Channel: r.QueryParam("channel"), Title: "All channels", Rules: r.projectPath("/settings/alerts"),
	}
	if !isQueryText(v.Channel) {
		return errGone
	}
	status := http.StatusOK
	filter, err := query.Parse(record.KindEvent, v.Query)
	if v.Fault = queryFault(err); v.Fault != nil {
		status = http.StatusBadRequest
	}
	v.filter = filter
	if v.Channel != "" {
		filter = query.All(record.KindEvent).Toggle("channel", v.Channel).And(filter)
	}
	v.Filter = filter.String()
	ctx, cancel := r.querying()
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	channels := start(&group, func() (clickhouse.EventPage, error) {
		return p.service.Events(ctx, r.project, clickhouse.EventQuery{From: now.Add(-countedSince), Limit: countedEvents})
	})
	if v.Fault == nil {
		if err := v.read(ctx, p, r, filter, now); err != nil {
			return err
		}
	}
	counted, err := channels.wait()
	if err != nil {
		return err
	}
	v.count(counted)
	return r.renderStatus(status, "events", view{Title: "Events · " + r.project.Name, Tab: "events", Body: v})
}

// address returns the page with another channel, open event and cursor.
func (v *eventsView) address(channel, event, cursor string) string {
	values := url.Values{}
	for key, value := range map[string]string{"q": v.Query, "channel": channel, "event": event, "cursor": cursor} {
		if value != "" {
			values.Set(key, value)
		}
	}
	if len(values) == 0 {
		return v.Path
	}
	return v.Path + "?" + values.Encode()
}

// read reads the events, the states of their notifications, and the open event.
func (v *eventsView) read(ctx context.Context, p *Pages, r *request, filter query.Query, now time.Time) error {
	cursor := cutText(r.QueryParam("cursor"), maxCursor)
	page, err := p.service.Events(ctx, r.project, clickhouse.EventQuery{Filter: filter, Limit: eventsPerPage, Cursor: cursor})
	if err != nil {
		return goneIfInvalid(err)
	}
	if v.Channel != "" {
		v.Title = printable(v.Channel)
	}
	if page.Next != "" {
		v.Older = v.address(v.Channel, "", page.Next)
	}
	if len(page.Events) > 0 && cursor == "" {
		v.Newest = page.Events[0].ID.String()
	}
	chips := p.deliveriesOf(ctx, r, page.Events, now)
	open := r.QueryParam("event")
	for _, e := range page.Events {
		row := v.row(e, chips, open)
		day := dayName(e.Timestamp, now)
		if n := len(v.Days); n == 0 || v.Days[n-1].Name != day {
			v.Days = append(v.Days, eventDay{Name: day})
		}
		last := &v.Days[len(v.Days)-1]
		last.Events = append(last.Events, row)
	}
	if open != "" {
		v.Detail, err = p.detail(ctx, r, v, open, page.Events, chips)
	}
	return err
}

// row returns an event of the list.
func (v *eventsView) row(e clickhouse.StoredEvent, chips map[string]*deliveryChip, open string) eventRow {
	id := e.ID.String()
	row := eventRow{
		ID: id, Path: v.address(v.Channel, id, ""), Icon: iconText(e.Icon), Channel: printable(e.Channel), At: e.Timestamp,
		Title: safeText(cutText(e.Title, rowBytes), nil), Text: safeText(oneLine(e.Description), nil), State: chips[id], Open: id == open,
	}
	if row.State == nil && e.Notify {
		row.State = &deliveryChip{"none", "", "not sent yet"}
	}
	for _, key := range slices.Sorted(maps.Keys(e.Tags)) {
		if len(row.Tags) == eventTagsShown {
			row.Tags = append(row.Tags, fmt.Sprintf("%d more", len(e.Tags)-eventTagsShown))
			break
		}
		row.Tags = append(row.Tags, printable(key)+"="+printable(e.Tags[key]))
	}
	return row
}

// iconText returns an event's emoji, or the first letter of a short code.
func iconText(icon string) string {
	icon = strings.Trim(printable(icon), ": ")
	characters := []rune(icon)
	switch {
	case len(characters) == 0:
		return "·"
	case characters[0] < 0x80:
		return strings.ToUpper(string(characters[:1]))
	}
	return string(characters[:min(len(characters), 8)])
}

// dayName returns a day as people call it.
func dayName(t, now time.Time) string {
	t = t.UTC()
	day := t.Format("Monday, 2 January")
	switch {
	case sameDay(t, now):
		return "Today, " + t.Format("2 January")
	case sameDay(t, now.Add(-24*time.Hour)):
		return "Yesterday, " + t.Format("2 January")
	case t.Year() != now.Year():
		return t.Format("2 January 2006")
	}
	return day
}

// deliveriesOf returns the chips of the events' notifications by ID. If they
// cannot be read, the page is shown without them.
func (p *Pages) deliveriesOf(ctx context.Context, r *request, events []clickhouse.StoredEvent, now time.Time) map[string]*deliveryChip {
	chips := map[string]*deliveryChip{}
	if !slices.ContainsFunc(events, func(e clickhouse.StoredEvent) bool { return e.Notify }) {
		return chips
	}
	page, err := p.service.Deliveries(ctx, r.project, clickhouse.DeliveryQuery{Limit: countedEvents})
	if err != nil {
		p.logger.Warn("deliveries not shown", "project", r.project.Name, "err", err)
		return chips
	}
	for _, d := range page.Deliveries {
		chips[d.ID] = chipOf(d, now)
	}
	return chips
}

// chipOf returns a notification's state in a few words.
func chipOf(d clickhouse.Delivery, now time.Time) *deliveryChip {
	to := formatName(d.Format)
	if d.Format == "" {
		to = printable(d.Destination)
	}
	switch d.State {
	case "delivered":
		return &deliveryChip{"ok", "check", to + ", " + since(d.Changed, now)}
	case "attempt":
		return &deliveryChip{"warn", "retry", fmt.Sprintf("%s, retrying after %s", to, plural(d.Attempts, "attempt"))}
	case "failed":
		return &deliveryChip{"error", "close", fmt.Sprintf("%s, failed after %s", to, plural(d.Attempts, "attempt"))}
	case "coalesced":
		return &deliveryChip{"none", "clock", to + ", in a digest"}
	}
	return &deliveryChip{"none", "clock", to + ", waiting"}
}

// count lists the channels, with the number of their events among the newest.
func (v *eventsView) count(page clickhouse.EventPage) {
	v.All, v.Capped = len(page.Events), page.Next != ""
	found := map[string]*channelRow{}
	for _, e := range page.Events {
		c := found[e.Channel]
		if c == nil {
			c = &channelRow{Name: printable(e.Channel), Path: v.address(e.Channel, "", ""), Current: e.Channel == v.Channel, Latest: e.Timestamp.UnixMilli()}
			found[e.Channel] = c
		}
		c.Count++
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		v.Channels = append(v.Channels, *found[name])
	}
}

// detail returns the open event. It need not be in the list.
func (p *Pages) detail(ctx context.Context, r *request, v *eventsView, open string, events []clickhouse.StoredEvent, chips map[string]*deliveryChip) (*eventDetail, error) {
	at := slices.IndexFunc(events, func(e clickhouse.StoredEvent) bool { return e.ID.String() == open })
	if at < 0 {
		if _, err := record.ParseRowID(open); err != nil {
			return nil, errGone
		}
		filter := query.All(record.KindEvent).Toggle("id", open)
		page, err := p.service.Events(ctx, r.project, clickhouse.EventQuery{Filter: filter, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(page.Events) == 0 {
			return nil, errGone
		}
		events, at = page.Events, 0
	}
	e := events[at]
	d := &eventDetail{eventRow: v.row(e, chips, open), Asked: e.Notify, Close: v.address(v.Channel, "", "")}
	d.Text = safeText(e.Description, nil)
	around := logState{From: e.Timestamp.Add(-aroundEvent), To: e.Timestamp.Add(aroundEvent)}
	d.Logs = around.address(r.projectPath("/logs"))
	d.fill(e, v)
	steps, err := p.service.DeliverySteps(ctx, r.project, open)
	if err != nil {
		p.logger.Warn("delivery history not shown", "project", r.project.Name, "err", err)
		d.Fault = "The history of the notification could not be read."
	}
	for _, step := range steps {
		d.Steps = append(d.Steps, stepOf(step))
	}
	return d, nil
}

// fill sets the event's fields.
func (d *eventDetail) fill(e clickhouse.StoredEvent, v *eventsView) {
	d.Fields = []rowField{
		{Name: "channel", Value: safeText(e.Channel, nil), In: v.address(e.Channel, "", "")},
		{Name: "time", Value: safeText(stampOf(e.Timestamp), nil)},
	}
	for _, key := range slices.Sorted(maps.Keys(e.Tags)) {
		more := *v
		more.Query = v.filter.Toggle("tags."+key, e.Tags[key]).String()
		d.Fields = append(d.Fields, rowField{Name: printable(key), Value: safeText(e.Tags[key], nil), In: more.address(v.Channel, "", "")})
	}
	d.Fields = append(d.Fields, rowField{Name: "id", Value: safeText(e.ID.String(), nil)})
}

// stepTitles are the states of a notification in words.
var stepTitles = map[string]string{
	"queued": "Waiting to be sent", "attempt": "Attempt %d failed", "delivered": "Delivered", "failed": "Failed after %d attempts", "coalesced": "In a digest with others",
}

// stepOf returns an entry of a notification's history. The answer of the chat
// service is shown as text.
func stepOf(s clickhouse.DeliveryStep) deliveryStep {
	title := stepTitles[s.State]
	if strings.Contains(title, "%d") {
		title = fmt.Sprintf(title, s.Attempt)
	}
	step := deliveryStep{State: "none", Title: title, At: s.Time.UTC(), Text: formatName(s.Format) + " " + printable(s.Destination), Answer: printable(strings.TrimSpace(s.Answer + " " + s.Detail))}
	if s.Status > 0 {
		step.Answer = strings.TrimSpace(fmt.Sprintf("%d %s", s.Status, step.Answer))
	}
	switch s.State {
	case "delivered":
		step.State = "ok"
	case "attempt":
		step.State = "warn"
	case "failed":
		step.State = "error"
	}
	return step
}
