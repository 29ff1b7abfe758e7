package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/project"
	wire "github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
)

// letterView is what a dead letter holds.
type letterView struct {
	letterRow
	Subject string
	Seq     uint64
	Records []letterRecord
	Raw     []piece // of a message that cannot be read
	More    bool    // there is more in it than is shown
	Fault   string
}

// letterRecord is one record of a letter.
type letterRecord struct {
	At      time.Time
	Project string
	Kind    string
	Text    []piece
}

const (
	shownRecords = 100
	shownRaw     = 16 << 10
)

// letterPage looks inside a dead letter without changing anything.
func (p *Pages) letterPage(r *request) error {
	id, err := strconv.ParseUint(r.Param("letter"), 10, 63)
	if err != nil {
		return errGone
	}
	ctx, cancel := r.asking()
	defer cancel()
	found, err := p.deps.Letters.Letter(ctx, id)
	if errors.Is(err, stream.ErrNoLetter) {
		return errGone
	}
	if err != nil {
		return fmt.Errorf("%w: %w", project.ErrUnavailable, err)
	}
	v := &letterView{letterRow: newLetterRow(found), Subject: printable(found.Subject), Seq: found.Seq}
	v.read(found.Data)
	return r.render("letter", view{Title: "Dead letter " + r.Param("letter"), Tab: "operations", Body: v})
}

// read shows the records of a message, or its bytes where it is none.
func (v *letterView) read(data []byte) {
	var reader wire.Reader
	reader.Reset(data)
	for {
		section, err := reader.NextSection()
		if section == nil || err != nil {
			if err != nil {
				v.Fault = printable(err.Error())
			}
			break
		}
		if !v.readSection(section) {
			break
		}
	}
	if len(v.Records) == 0 {
		v.More = len(data) > shownRaw
		v.Raw = safeText(strings.ToValidUTF8(string(data[:min(len(data), shownRaw)]), "\ufffd"), nil)
	}
}

// readSection shows a section's records; it is false where enough are shown or
// no more can be read.
func (v *letterView) readSection(s *wire.Section) bool {
	for {
		if len(v.Records) == shownRecords {
			v.More = true
			return false
		}
		shown := letterRecord{Project: printable(s.Project), Kind: "log"}
		var l wire.Log
		var e wire.Event
		var d wire.Drop
		var ok bool
		var err error
		switch s.Kind {
		case wire.KindLog:
			ok, err = s.NextLog(&l)
			shown.At, shown.Text = time.Unix(0, l.Timestamp).UTC(), safeText(cutText(l.Data, rowBytes), nil)
		case wire.KindEvent:
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

// mostReplayed bounds one form.
const mostReplayed = 100

// replayLetters puts the chosen letters back on the queue.
func (p *Pages) replayLetters(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	ctx, cancel := r.changing()
	defer cancel()
	ids := form["id"]
	for _, text := range ids[:min(len(ids), mostReplayed)] {
		id, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			continue
		}
		_, err = p.deps.Letters.Replay(ctx, id)
		if err == nil || errors.Is(err, stream.ErrNotRemoved) {
			r.changed(ctx, "dead_letter.replayed", text)
		}
		if err != nil && !errors.Is(err, stream.ErrNoLetter) {
			return r.notReplayed(text, err)
		}
	}
	return r.goTo(operationsPath + "?done=letters-replayed")
}

// notReplayed tells why a letter stays where it is.
func (r *request) notReplayed(id string, err error) error {
	if errors.Is(err, stream.ErrUnavailable) || errors.Is(err, stream.ErrBusy) {
		return fmt.Errorf("%w: %w", project.ErrUnavailable, err)
	}
	telemetry.SetCode(r, "not_replayable")
	refused := refusal{http.StatusConflict, "not_replayable", "Dead letter " + id + " was not replayed", sentence(err.Error()) + " It stays among the dead letters."}
	return r.renderStatus(refused.Status, "error", view{Title: refused.Title, Tab: "operations", Body: refused})
}
