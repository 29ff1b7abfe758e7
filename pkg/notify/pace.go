package notify

import (
	"math/rand/v2"
	"time"

	"github.com/logboom/logboom/pkg/webhook"
)

// pace limits the messages to one destination: a number of them in each window,
// and a gap between two of them. It is pure: the caller passes the time in.
type pace struct {
	perWindow int
	window    time.Duration
	gap       time.Duration

	start time.Time // of the window
	used  int       // messages in the window
	last  time.Time // the newest message
}

// gapOf returns the gap that a service requires between two messages.
func gapOf(format webhook.Format) time.Duration {
	switch format {
	case webhook.Slack, webhook.GoogleChat, webhook.Telegram:
		return time.Second
	case webhook.Discord:
		return 400 * time.Millisecond // 5 in 2 s
	case webhook.Teams:
		return 250 * time.Millisecond // 4 in 1 s
	}
	return 100 * time.Millisecond
}

// remaining returns how many further messages the window allows.
func (p *pace) remaining(now time.Time) int {
	if p.expired(now) {
		return p.perWindow
	}
	return max(p.perWindow-p.used, 0)
}

func (p *pace) expired(now time.Time) bool {
	return p.start.IsZero() || now.Sub(p.start) >= p.window
}

// due returns when the next message may be sent.
func (p *pace) due(now time.Time) time.Time {
	due := now
	if p.remaining(now) == 0 {
		due = p.start.Add(p.window)
	}
	if next := p.last.Add(p.gap); next.After(due) {
		due = next
	}
	return due
}

// record counts a message.
func (p *pace) record(now time.Time) {
	if p.expired(now) {
		p.start, p.used = now, 0
	}
	p.used++
	p.last = now
}

// retryPause returns the pause after a failed attempt, counted from 1. It doubles
// from first to longest. Half of it is random, so that the destinations of one
// service do not retry at the same moment. It depends on the stored number of
// attempts alone, so that a restart does not shorten it.
func retryPause(attempt int, first, longest time.Duration) time.Duration {
	pause := longest
	if attempt < 32 && first<<(attempt-1) < longest {
		pause = first << (attempt - 1)
	}
	return pause/2 + rand.N(pause/2+1)
}
