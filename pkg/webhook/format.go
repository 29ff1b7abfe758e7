package webhook

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// Format is a chat service's way of taking a message.
type Format string

// The formats.
const (
	Auto       Format = "auto" // told by the address
	Slack      Format = "slack"
	Discord    Format = "discord"
	Teams      Format = "teams"
	Mattermost Format = "mattermost"
	RocketChat Format = "rocketchat"
	GoogleChat Format = "googlechat"
	Telegram   Format = "telegram"
	Generic    Format = "generic" // our JSON, signed: https://www.standardwebhooks.com
)

// Why an address cannot be sent to.
var (
	errRetired = errors.New("incoming webhooks of Office 365 connectors are retired: make a Teams workflow and use its address")
	errNoChat  = errors.New("a Telegram address needs the chat: https://api.telegram.org/bot…/sendMessage?chat_id=…")
	errAddress = errors.New("the address is not one that can be sent to")
)

// shapes are how the addresses of services that run on anybody's host look.
var (
	discordPath    = regexp.MustCompile(`^/api(/v[0-9]+)?/webhooks/[0-9]+/`)
	mattermostPath = regexp.MustCompile(`/hooks/[a-z0-9]{26}$`)
	rocketChatPath = regexp.MustCompile(`/hooks/[^/]+/[^/]+$`)
)

// Resolve is the format that an address is sent to in: what was asked for, or
// what its shape tells where that is Auto or empty.
func Resolve(asked Format, address string) Format {
	if asked != Auto && asked != "" {
		return asked
	}
	u, err := url.Parse(address)
	if err != nil {
		return Generic
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case host == "hooks.slack.com", host == "hooks.slack-gov.com":
		return Slack
	case isDiscord(host) && discordPath.MatchString(u.Path):
		return Discord
	case strings.HasSuffix(host, ".logic.azure.com"), strings.HasSuffix(host, ".environment.api.powerplatform.com"), isOffice(host):
		return Teams
	case host == "chat.googleapis.com":
		return GoogleChat
	case host == "api.telegram.org":
		return Telegram
	case mattermostPath.MatchString(u.Path):
		return Mattermost
	case rocketChatPath.MatchString(u.Path):
		return RocketChat
	}
	return Generic
}

func isDiscord(host string) bool {
	host = strings.TrimPrefix(strings.TrimPrefix(host, "canary."), "ptb.")
	return host == "discord.com" || host == "discordapp.com"
}

func isOffice(host string) bool {
	return host == "outlook.office.com" || strings.HasSuffix(host, ".webhook.office.com")
}

// Idempotent tells whether a message that is sent again under its ID arrives
// once: the service, or a receiver of ours, knows the ID.
func (f Format) Idempotent() bool { return f == GoogleChat || f == Generic }

// endpoint is where a message of the format is posted to.
func endpoint(format Format, address string, id string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return nil, errAddress // the parser's error repeats the address
	}
	query := u.Query()
	switch {
	case isOffice(strings.ToLower(u.Hostname())):
		return nil, errRetired
	case format == Telegram:
		if query.Get("chat_id") == "" {
			return nil, errNoChat
		}
		query.Del("chat_id")
		query.Del("message_thread_id")
		u.RawQuery = query.Encode()
	case format == GoogleChat:
		query.Set("requestId", id)
		u.RawQuery = query.Encode()
	}
	return u, nil
}
