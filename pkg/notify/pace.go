package notify

import (
	"math/rand/v2"
	"time"

	"github.com/logboom/logboom/pkg/webhook"
)

// pace is one destination's token bucket: so many messages a window, and a gap
// between two. It is pure; the clock is passed in.
type pace struct {
	perWindow int
	window    time.Duration
	gap       time.Duration

	began time.Time // of the window
	used  int       // messages of the window
	last  time.Time // the newest message
}

// gapOf is how far apart a service wants messages to be.
func gapOf(format webhook.Format) time.Duration {
	switch format {
	case webhook.Slack, webhook.GoogleChat, webhook.Telegram:
		return time.Second
	case webhook.Discord:
		return 400 * time.Millisecond // 5 in 2 s
	case webhook.Teams:
		return 250 * time.Millisecond // 4 a second
	}
	return 100 * time.Millisecond
}

// left is how many messages the window still has.
func (p *pace) left(now time.Time) int {
	if p.over(now) {
		return p.perWindow
	}
	return max(p.perWindow-p.used, 0)
}

func (p *pace) over(now time.Time) bool { return p.began.IsZero() || now.Sub(p.began) >= p.window }

// due is when the next message may go.
func (p *pace) due(now time.Time) time.Time {
	due := now
	if p.left(now) == 0 {
		due = p.began.Add(p.window)
	}
	if next := p.last.Add(p.gap); next.After(due) {
		due = next
	}
	return due
}

// sent counts a message.
func (p *pace) sent(now time.Time) {
	if p.over(now) {
		p.began, p.used = now, 0
	}
	p.used++
	p.last = now
}

// backoff is the pause after the attempt: it doubles from first to most, and
// half of it is by chance, so that destinations of one service do not return
// together.
func backoff(attempt int, first, most time.Duration) time.Duration {
	wait := most
	if attempt < 32 && first<<(attempt-1) < most {
		wait = first << (attempt - 1)
	}
	return wait/2 + rand.N(wait/2+1)
}
