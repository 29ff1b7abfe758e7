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

// Outcome says how one attempt ended.
type Outcome uint8

// The outcomes.
const (
	Failed    Outcome = iota // not delivered, for a reason that may pass: retry after Result.After
	Delivered                // the service accepted the message
	Rejected                 // the service will never accept this message
	Gone                     // the service accepts nothing at this address until a person changes something
	Refused                  // not sent: the address is forbidden or not valid
)

// String returns the outcome as rows and answers show it.
func (o Outcome) String() string {
	switch o {
	case Delivered:
		return "delivered"
	case Refused:
		return "refused"
	}
	return "failed"
}

// Result describes one attempt. It contains no secret.
type Result struct {
	Outcome Outcome
	Status  int           // of the answer; 0: there was no answer
	Answer  string        // the first KiB of the answer, cleaned
	Detail  string        // the reason, for people
	After   time.Duration // the pause that the service asks for; 0: it asks for none
	Unknown bool          // the request was sent but not answered: it may have arrived
}

const (
	maxRead   = 4 << 10
	maxAnswer = 1 << 10
	maxDetail = 300
	// maxAfter bounds the pause that a service can ask for.
	maxAfter = time.Hour
)

// reply holds the fields of the services' answers that have a meaning here.
type reply struct {
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

func decodeReply(body []byte) (r reply) {
	_ = json.Unmarshal(body, &r) // most answers are not JSON, or other JSON
	return r
}

// classify returns the meaning of an answer in a format.
func classify(format Format, status int, header http.Header, body []byte, now time.Time) Result {
	rep := decodeReply(body)
	if format == Telegram && rep.OK != nil && !*rep.OK && rep.ErrorCode != 0 {
		status = rep.ErrorCode
	}
	r := Result{Status: status, After: retryAfter(header, rep, now)}
	switch {
	case format == RocketChat && status < 300 && rep.Success != nil && !*rep.Success:
		r.Outcome, r.Detail = Rejected, "the service answered that it did not accept the message"
	case status >= 200 && status < 300:
		r.Outcome = Delivered
	case status >= 300 && status < 400:
		r.Outcome, r.Detail = Failed, "the address answers with a redirect, which is not followed: use the address that it leads to"
	case slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}, status), status >= 500:
		r.Outcome, r.Detail = Failed, "the service answered "+strconv.Itoa(status)
	case isGone(format, status, strings.ToLower(string(body))):
		r.Outcome, r.Detail = Gone, "the service no longer accepts messages at this address: it answered "+strconv.Itoa(status)
	default:
		r.Outcome, r.Detail = Rejected, "the service does not accept the message: it answered "+strconv.Itoa(status)
	}
	return r
}

// isGone reports whether an answer rejects the address and not only the message.
func isGone(format Format, status int, text string) bool {
	switch format {
	case Generic:
		return status == http.StatusGone
	case Slack, Telegram: // these words say that the address no longer works
		for _, word := range []string{
			"no_service", "no_active_hooks", "no_team", "team_disabled", "channel_not_found", "channel_is_archived", "action_prohibited", "invalid_token",
			"chat not found", "bot was kicked", "bot was blocked",
		} {
			if strings.Contains(text, word) {
				return true
			}
		}
	}
	return slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone}, status)
}

// retryAfter returns the pause that the service asks for, in any of the forms
// that services use.
func retryAfter(header http.Header, rep reply, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return toPause(seconds)
	}
	if at, err := http.ParseTime(text); err == nil {
		return toPause(at.Sub(now).Seconds())
	}
	for _, seconds := range []*float64{rep.RetryAfter, rep.Parameters.RetryAfter} {
		if seconds != nil {
			return toPause(*seconds)
		}
	}
	if remaining := header.Get("X-RateLimit-Remaining"); remaining != "" && remaining != "0" {
		return 0
	}
	if seconds, err := strconv.ParseFloat(header.Get("X-RateLimit-Reset-After"), 64); err == nil {
		return toPause(seconds)
	}
	if reset, err := strconv.ParseFloat(header.Get("X-RateLimit-Reset"), 64); err == nil {
		if reset > 1e9 { // seconds since 1970, not from now
			reset -= float64(now.UnixMilli()) / 1000
		}
		return toPause(reset)
	}
	return 0
}

func toPause(seconds float64) time.Duration {
	if math.IsNaN(seconds) || seconds <= 0 {
		return 0
	}
	return min(time.Duration(min(seconds, maxAfter.Seconds())*float64(time.Second)), maxAfter)
}
