package webhook

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Outcome is what became of one attempt.
type Outcome uint8

// The outcomes.
const (
	Failed    Outcome = iota // not delivered for a reason that may pass: try again, after Result.After
	Delivered                // the service took it
	Rejected                 // this message will never be taken
	Gone                     // nothing will be taken at this address until somebody changes something
	Refused                  // not sent: the guard forbids it, or the address cannot be sent to
)

// String is the outcome as rows and answers show it.
func (o Outcome) String() string {
	switch o {
	case Delivered:
		return "delivered"
	case Refused:
		return "refused"
	}
	return "failed"
}

// Result is what an attempt came to. It holds no secret.
type Result struct {
	Outcome Outcome
	Status  int           // of the answer; 0: there was none
	Answer  string        // its first KiB, made harmless
	Detail  string        // why, for people
	After   time.Duration // for how long the service asks to be left alone; 0: it did not say
	Unknown bool          // the request was sent and not answered: it may have arrived
}

const (
	maxRead   = 4 << 10
	maxAnswer = 1 << 10
	maxDetail = 300
	// maxAfter caps what a service may ask for.
	maxAfter = time.Hour
)

// spoken are the parts of the services' answers that mean something.
type spoken struct {
	Success     *bool    `json:"success"`     // Rocket.Chat
	OK          *bool    `json:"ok"`          // Telegram
	ErrorCode   int      `json:"error_code"`  // Telegram
	Description string   `json:"description"` // Telegram
	RetryAfter  *float64 `json:"retry_after"` // Discord
	Parameters  struct {
		RetryAfter *float64 `json:"retry_after"`
		MigrateTo  int64    `json:"migrate_to_chat_id"`
	} `json:"parameters"` // Telegram
}

func listen(body []byte) (s spoken) {
	_ = json.Unmarshal(body, &s) // most answers are no JSON, or other JSON
	return s
}

// judge says what an answer means in a format.
func judge(format Format, status int, header http.Header, body []byte, now time.Time) Result {
	said := listen(body)
	if format == Telegram && said.OK != nil && !*said.OK && said.ErrorCode != 0 {
		status = said.ErrorCode
	}
	r := Result{Status: status, After: retryAfter(header, said, now)}
	text := strings.ToLower(string(body))
	switch {
	case format == RocketChat && status < 300 && said.Success != nil && !*said.Success:
		r.Outcome, r.Detail = Rejected, "the service answered that it did not take the message"
	case status >= 200 && status < 300:
		r.Outcome = Delivered
	case status >= 300 && status < 400:
		r.Outcome, r.Detail = Failed, "the address answers with a redirect, which is not followed: give the address that it leads to"
	case slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}, status), status >= 500:
		r.Outcome, r.Detail = Failed, "the service answered "+strconv.Itoa(status)
	case isGone(format, status, text):
		r.Outcome, r.Detail = Gone, "the service no longer takes messages at this address: answer "+strconv.Itoa(status)
	default:
		r.Outcome, r.Detail = Rejected, "the service does not take the message: answer "+strconv.Itoa(status)
	}
	return r
}

// goneWords are those in which Slack and Telegram say that an address is dead.
var goneWords = []string{
	"no_service", "no_active_hooks", "no_team", "team_disabled", "channel_not_found", "channel_is_archived", "action_prohibited", "invalid_token",
	"chat not found", "bot was kicked", "bot was blocked",
}

// isGone tells a dead address from a message that is not liked.
func isGone(format Format, status int, text string) bool {
	switch format {
	case Generic:
		return status == http.StatusGone
	case Slack, Telegram:
		if slices.ContainsFunc(goneWords, func(word string) bool { return strings.Contains(text, word) }) {
			return true
		}
	}
	return slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone}, status)
}

// retryAfter finds out for how long the service asks to be left alone, in any
// of the forms that are in use.
func retryAfter(header http.Header, said spoken, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return bounded(seconds)
	}
	if at, err := http.ParseTime(text); err == nil {
		return bounded(at.Sub(now).Seconds())
	}
	for _, seconds := range []*float64{said.RetryAfter, said.Parameters.RetryAfter} {
		if seconds != nil {
			return bounded(*seconds)
		}
	}
	if left := header.Get("X-RateLimit-Remaining"); left != "" && left != "0" {
		return 0
	}
	if seconds, err := strconv.ParseFloat(header.Get("X-RateLimit-Reset-After"), 64); err == nil {
		return bounded(seconds)
	}
	if reset, err := strconv.ParseFloat(header.Get("X-RateLimit-Reset"), 64); err == nil {
		if reset > 1e9 { // a time since 1970, not one from now on
			reset -= float64(now.UnixMilli()) / 1000
		}
		return bounded(reset)
	}
	return 0
}

func bounded(seconds float64) time.Duration {
	if math.IsNaN(seconds) || seconds <= 0 {
		return 0
	}
	return min(time.Duration(min(seconds, maxAfter.Seconds())*float64(time.Second)), maxAfter)
}
