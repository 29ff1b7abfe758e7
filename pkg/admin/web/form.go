package web

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/project"
)

// faultOf is what is wrong with which field of a form, where that is what the
// error says.
func faultOf(err error) (field, fault string, ok bool) {
	var invalid *project.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Field, sentence(invalid.Reason), true
	}
	return "", "", false
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// setRetryAfter says in how many seconds to come again.
func (r *request) setRetryAfter(wait time.Duration) {
	r.Response().Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}

// confirmation asks for a name to be typed before something is gone for good.
type confirmation struct {
	Title  string   // the question
	Texts  []string // what will happen
	Name   string   // what must be typed
	Action string   // the button
	Keep   string   // where to go instead
	Hidden map[string]string
	Fault  string
}

// isConfirmed tells whether the name was typed.
func isConfirmed(typed, name string) bool { return strings.TrimSpace(typed) == strings.TrimSpace(name) }

// notTyped is what a form says where another name was typed.
func notTyped(name string) string { return "Type " + name + " exactly as it is written." }
