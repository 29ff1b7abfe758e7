package webhook

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// Format is the form in which a chat service expects a message.
type Format string

// The formats.
const (
	Auto       Format = "auto" // chosen by the address
	Slack      Format = "slack"
	Discord    Format = "discord"
	Teams      Format = "teams"
	Mattermost Format = "mattermost"
	RocketChat Format = "rocketchat"
	GoogleChat Format = "googlechat"
	Telegram   Format = "telegram"
	Generic    Format = "generic" // Logboom's own JSON, signed: https://www.standardwebhooks.com
)

// Reasons why nothing can be sent to an address.
var (
	errRetired = errors.New("incoming webhooks of Office 365 connectors are retired: create a Teams workflow and use its address")
	errNoChat  = errors.New("a Telegram address must name the chat: https://api.telegram.org/bot…/sendMessage?chat_id=…")
	errAddress = errors.New("the address is not a valid URL without credentials")
)

// Paths of services that run on any host.
var (
	discordPath    = regexp.MustCompile(`^/api(/v[0-9]+)?/webhooks/[0-9]+/`)
	mattermostPath = regexp.MustCompile(`/hooks/[a-z0-9]{26}$`)
	rocketChatPath = regexp.MustCompile(`/hooks/[^/]+/[^/]+$`)
)

// Resolve returns the format to use for an address. If format is Auto or empty,
// the form of the address decides.
func Resolve(format Format, address string) Format {
	if format != Auto && format != "" {
		return format
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

// Idempotent reports whether a message that is sent twice with the same ID
// arrives once, because the receiver recognises the ID.
func (f Format) Idempotent() bool { return f == GoogleChat || f == Generic }

// endpoint returns the URL to which a message of the format is posted.
func endpoint(format Format, address string, id string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return nil, errAddress // the parser's error would show the address
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
