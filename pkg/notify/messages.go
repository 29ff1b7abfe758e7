package notify

import (
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/webhook"
)

// eventMessage renders the alert of an event. It copies what it uses.
func (n *Notifier) eventMessage(projectID, id string, e *record.Event) webhook.Message {
	m := webhook.Message{
		ID: id, Kind: "event", Project: projectName(projectID), Source: "#" + e.Channel, Title: strings.Clone(e.Title),
		Text: e.Description, Icon: strings.Clone(e.Icon), Time: time.Unix(0, e.Timestamp), Link: n.link(projectID, "events", id),
	}
	for _, tag := range e.Tags {
		m.Fields = append(m.Fields, webhook.Field{Key: strings.Clone(tag.Key), Value: strings.Clone(tag.Value)})
	}
	m = m.Bounded()
	m.Text = strings.Clone(m.Text)
	return m
}

// groupMessage renders the alert of a group of logs. Its ID is derived from the
// group and its first log.
func (n *Notifier) groupMessage(g *dueGroup) webhook.Message {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(g.key.application + "\x00" + g.key.pattern)) // never fails
	firstLine, _, _ := strings.Cut(g.sample.Data, "\n")
	m := webhook.Message{
		ID: fmt.Sprintf("l-%s-%08x", g.first, hash.Sum32()), Kind: "logs", Project: projectName(g.projectID), Source: g.sample.Application,
		Severity: colour(g.sample.SeverityNumber), Title: g.sample.Severity + ": " + firstLine, Text: g.sample.Data, Count: g.count,
		Time: time.Unix(0, g.sample.Timestamp), Link: n.link(g.projectID, "logs", g.first.String()),
	}
	if g.count > 1 {
		m.Title = fmt.Sprintf("%d × %s", g.count, m.Title)
		m.Fields = []webhook.Field{{Key: "pattern", Value: g.key.pattern}}
	}
	if g.sample.Host != "" {
		m.Fields = append(m.Fields, webhook.Field{Key: "host", Value: g.sample.Host})
	}
	return m.Bounded()
}

// colour returns the colour of an OpenTelemetry severity number.
func colour(severity uint8) string {
	switch {
	case severity >= 17:
		return "error"
	case severity >= 13:
		return "warn"
	}
	return "info"
}

// quotaMessage renders the warning that a percentage of a quota is used. Its ID
// is the same for the whole window.
func quotaMessage(projectID string, u quotaUsage, percent int) webhook.Message {
	m := webhook.Message{
		ID:   fmt.Sprintf("q-%s-%d-%d", u.quota, u.window.Start.Unix(), percent),
		Kind: "quota", Project: projectName(projectID), Source: string(u.quota), Severity: "warn", Time: time.Now(),
		Title: fmt.Sprintf("%d %% of the quota %s is used", percent, u.quota),
		Text:  fmt.Sprintf("%d of %d until %s.", u.used, u.limit, u.window.End.UTC().Format(time.RFC3339)),
	}
	if percent == quotaSpent {
		m.Severity, m.Title = "error", fmt.Sprintf("The quota %s is spent", u.quota)
		m.Text += " Until then, further records are refused and counted."
	}
	return m
}

// digestMessage renders one message for many alerts: their number, and the
// titles of the first ones.
func digestMessage(projectID string, b batch) webhook.Message {
	m := webhook.Message{ID: b.id(), Kind: "digest", Project: projectName(projectID), Time: b.alerts[0].since}
	for _, a := range b.alerts {
		m.Count += a.count
		m.Lines = append(m.Lines, a.title)
	}
	m.Lines = m.Lines[:min(len(m.Lines), 15)]
	m.Title = fmt.Sprintf("%d alerts", m.Count)
	if n := len(b.alerts); n != m.Count {
		m.Title = fmt.Sprintf("%d alerts in %d messages", m.Count, n)
	}
	return m.Bounded()
}

// link returns the address of the page that shows a record, or "" if the
// operator has not set the address of the pages.
func (n *Notifier) link(projectID, kind, id string) string {
	if n.cfg.PublicURL == "" {
		return ""
	}
	return strings.TrimSuffix(n.cfg.PublicURL, "/") + "/projects/" + projectName(projectID) + "/" + kind + "?q=" + url.QueryEscape("id:"+id)
}

// eventID returns the ID of an event as the API shows it.
func eventID(at outbox.EventPosition) string {
	return record.RowID{Shard: uint8(at.Shard), Seq: at.Seq, Idx: at.Idx}.String()
}
