package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Webhooks say whom messages to chats may reach.
type Webhooks struct {
	WebhookAllow []string `help:"Whom webhooks may reach although the guard forbids it, http included: host:port, such as chat.internal:8065, or a network, such as 10.20.0.0/16; separated by commas."`
}

// Validate refuses entries of another form.
func (w *Webhooks) Validate() error {
	for _, entry := range w.WebhookAllow {
		_, network := netip.ParsePrefix(entry)
		host, port, name := net.SplitHostPort(entry)
		if _, number := strconv.ParseUint(port, 10, 16); network != nil && (name != nil || host == "" || strings.Contains(host, "/") || number != nil) {
			return fmt.Errorf("--webhook-allow (%s): %.100q is neither host:port nor a network such as 10.20.0.0/16", Variable("webhook-allow"), entry)
		}
	}
	return nil
}

// Alerts say how messages to chats are sent.
type Alerts struct {
	AlertsPerMinute int `default:"20" help:"Messages that one destination gets in a minute; what is more becomes one digest."`
}

// Validate refuses numbers out of range.
func (a *Alerts) Validate() error {
	if a.AlertsPerMinute < 1 || a.AlertsPerMinute > 1000 {
		return fmt.Errorf("--alerts-per-minute (%s): %d is not within 1 to 1000", Variable("alerts-per-minute"), a.AlertsPerMinute)
	}
	return nil
}
