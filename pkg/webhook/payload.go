package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// maxBody bounds a request's body, in bytes: the limit of the strictest service.
const maxBody = 64 << 10

// payload returns the body that carries a message in a format. Bodies are
// encoded from structs only; no text is ever concatenated into JSON.
func payload(format Format, address *url.URL, chat url.Values, m Message) ([]byte, error) {
	m = m.cleaned()
	var value any
	switch format {
	case Slack:
		if strings.Contains(address.Path, "/services/") {
			value = slackBody(&m)
		} else {
			value = slackVariablesBody(&m)
		}
	case Discord:
		value = discordBody(&m)
	case Teams:
		value = teamsBody(&m)
	case Mattermost, RocketChat:
		value = attachmentBody(format, &m)
	case GoogleChat:
		value = googleChatText{Text: compose(&m, 12_000, plainBytes, func(s string) string { return s })}
	case Telegram:
		value = telegramBody(&m, chat)
	case Generic:
		value = genericBody(&m)
	default:
		return nil, fmt.Errorf("unknown format %q", string(format))
	}
	return encode(value)
}

// encode encodes JSON without the escapes for HTML pages.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	if b.Len() > maxBody {
		return nil, fmt.Errorf("the body has %d bytes, over the limit of %d", b.Len(), maxBody)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// compose returns the message as one text of a limited size. The headline, the
// fields, the footer and the link are added first, so that they always fit.
func compose(m *Message, limit int, in style, bold func(string) string) string {
	head := bold(fit(m.headline(), 300, in))
	var tail strings.Builder
	for _, f := range m.Fields {
		tail.WriteString("\n" + fit(f.Key, maxFieldKey, in) + ": " + fit(f.Value, maxFieldValue, in))
	}
	tail.WriteString("\n" + fit(m.footer(), 400, in))
	if m.Link != "" {
		tail.WriteString("\n" + m.Link)
	}
	room := limit - in.size(head) - in.size(tail.String()) - 1
	if text := fit(m.body(), room, in); text != "" {
		head += "\n" + text
	}
	return head + tail.String()
}

// slackMessage is https://api.slack.com/messaging/webhooks and
// https://api.slack.com/reference/block-kit/blocks.
type slackMessage struct {
	Text   string       `json:"text"` // for notifications and old clients
	Blocks []slackBlock `json:"blocks"`
}

type slackBlock struct {
	Type     string      `json:"type"`
	Text     *slackText  `json:"text,omitempty"`
	Fields   []slackText `json:"fields,omitempty"`
	Elements []slackText `json:"elements,omitempty"`
}

type slackText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func slackBody(m *Message) slackMessage {
	blocks := []slackBlock{{Type: "header", Text: &slackText{"plain_text", cut(m.headline(), 150)}}}
	if text := fit(m.body(), 3000, mrkdwn); text != "" {
		blocks = append(blocks, slackBlock{Type: "section", Text: &slackText{"mrkdwn", text}})
	}
	if len(m.Fields) > 0 {
		section := slackBlock{Type: "section"}
		for _, f := range m.Fields {
			section.Fields = append(section.Fields, slackText{"mrkdwn", "*" + fit(f.Key, maxFieldKey, mrkdwn) + "*\n" + fit(f.Value, 500, mrkdwn)})
		}
		blocks = append(blocks, section)
	}
	context := fit(m.footer(), 1000, mrkdwn)
	if m.Link != "" {
		context += " · <" + m.Link + "|open>"
	}
	blocks = append(blocks, slackBlock{Type: "context", Elements: []slackText{{"mrkdwn", context}}})
	return slackMessage{Text: fit(m.headline(), 500, mrkdwn), Blocks: blocks}
}

// slackVariables is the body for a workflow's trigger: flat variables.
type slackVariables struct {
	ID      string `json:"id"`
	Project string `json:"project"`
	Source  string `json:"source"`
	Title   string `json:"title"`
	Text    string `json:"text"`
	Footer  string `json:"footer"`
	Link    string `json:"link"`
}

func slackVariablesBody(m *Message) slackVariables {
	return slackVariables{
		ID: m.ID, Project: m.Project, Source: m.Source, Title: fit(m.headline(), 300, mrkdwn), Text: fit(m.body(), 3000, mrkdwn),
		Footer: fit(m.footer(), 1000, mrkdwn), Link: m.Link,
	}
}

// discordMessage is https://discord.com/developers/docs/resources/webhook#execute-webhook.
type discordMessage struct {
	Content  string          `json:"content"`
	Embeds   []discordEmbed  `json:"embeds"`
	Mentions discordMentions `json:"allowed_mentions"`
}

// discordMentions forbids mentions: parse must be present and empty.
type discordMentions struct {
	Parse []string `json:"parse"`
}

type discordEmbed struct {
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	URL         string         `json:"url,omitempty"`
	Color       int            `json:"color"`
	Timestamp   string         `json:"timestamp"`
	Fields      []discordField `json:"fields,omitempty"`
	Footer      discordFooter  `json:"footer"`
}

type discordField struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Inline bool   `json:"inline"`
}

type discordFooter struct {
	Text string `json:"text"`
}

// discordBody stays under 6,000 characters in total: 256 + 2,600 + 10 × 210 + 400.
func discordBody(m *Message) discordMessage {
	embed := discordEmbed{
		Title: fit(m.headline(), 256, markdown), Description: fit(m.body(), 2600, markdown), URL: m.Link, Color: m.colour(),
		Timestamp: m.Time.UTC().Format(time.RFC3339), Footer: discordFooter{cut(m.footer(), 400)},
	}
	for _, f := range m.Fields {
		embed.Fields = append(embed.Fields, discordField{fit(cmp.Or(f.Key, "-"), maxFieldKey, markdown), fit(cmp.Or(f.Value, "-"), maxFieldValue, markdown), true})
	}
	return discordMessage{Embeds: []discordEmbed{embed}, Mentions: discordMentions{Parse: []string{}}}
}

// teamsMessage is the message of a workflow, with an adaptive card:
// https://learn.microsoft.com/power-automate/teams/send-a-message-in-teams and
// https://adaptivecards.io/explorer/AdaptiveCard.html.
type teamsMessage struct {
	Type        string            `json:"type"`
	Attachments []teamsAttachment `json:"attachments"`
}

type teamsAttachment struct {
	ContentType string    `json:"contentType"`
	Content     teamsCard `json:"content"`
}

type teamsCard struct {
	Schema  string       `json:"$schema"`
	Type    string       `json:"type"`
	Version string       `json:"version"`
	Body    []teamsBlock `json:"body"`
	Actions []teamsOpen  `json:"actions,omitempty"`
}

type teamsBlock struct {
	Type   string      `json:"type"`
	Text   string      `json:"text,omitempty"`
	Weight string      `json:"weight,omitempty"`
	Size   string      `json:"size,omitempty"`
	Subtle bool        `json:"isSubtle,omitempty"`
	Wrap   bool        `json:"wrap,omitempty"`
	Facts  []teamsFact `json:"facts,omitempty"`
}

type teamsFact struct {
	Title string `json:"title"`
	Value string `json:"value"`
}

type teamsOpen struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

// teamsBody stays under 21 KB: its text has at most 4,000 bytes, and the longest
// escape, that of a line end, has four bytes in JSON.
func teamsBody(m *Message) teamsMessage {
	blocks := []teamsBlock{{Type: "TextBlock", Text: fit(m.headline(), 500, markdownBytes), Weight: "Bolder", Size: "Medium", Wrap: true}}
	if text := fit(m.body(), 4000, markdownBytes); text != "" {
		blocks = append(blocks, teamsBlock{Type: "TextBlock", Text: strings.ReplaceAll(text, "\n", "\n\n"), Wrap: true})
	}
	if len(m.Fields) > 0 {
		facts := teamsBlock{Type: "FactSet"}
		for _, f := range m.Fields {
			facts.Facts = append(facts.Facts, teamsFact{fit(f.Key, 100, markdownBytes), fit(f.Value, 300, markdownBytes)})
		}
		blocks = append(blocks, facts)
	}
	blocks = append(blocks, teamsBlock{Type: "TextBlock", Text: fit(m.footer(), 500, markdownBytes), Subtle: true, Size: "Small", Wrap: true})
	card := teamsCard{Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4", Body: blocks}
	if m.Link != "" {
		card.Actions = []teamsOpen{{"Action.OpenUrl", "Open", m.Link}}
	}
	return teamsMessage{Type: "message", Attachments: []teamsAttachment{{"application/vnd.microsoft.card.adaptive", card}}}
}

// attachmentMessage is the message of Mattermost and Rocket.Chat:
// https://developers.mattermost.com/integrate/reference/message-attachments and
// https://docs.rocket.chat/docs/integrations.
type attachmentMessage struct {
	Text        string       `json:"text"`
	Username    string       `json:"username,omitempty"` // Mattermost
	Alias       string       `json:"alias,omitempty"`    // Rocket.Chat
	Emoji       string       `json:"emoji,omitempty"`
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	Fallback  string            `json:"fallback,omitempty"`
	Color     string            `json:"color"`
	Text      string            `json:"text"`
	TitleLink string            `json:"title_link,omitempty"`
	Title     string            `json:"title,omitempty"`
	Fields    []attachmentField `json:"fields,omitempty"`
	Footer    string            `json:"footer,omitempty"`
}

type attachmentField struct {
	Title string `json:"title"`
	Value string `json:"value"`
	Short bool   `json:"short"`
}

// attachmentBody stays under the limits for all texts of a message together:
// 16,383 characters in Mattermost and 5,000 in Rocket.Chat.
func attachmentBody(format Format, m *Message) attachmentMessage {
	limit := 2000
	if format == Mattermost {
		limit = 7000
	}
	a := attachment{Color: fmt.Sprintf("#%06x", m.colour()), Text: fit(m.body(), limit, markdown)}
	for _, f := range m.Fields {
		a.Fields = append(a.Fields, attachmentField{fit(f.Key, maxFieldKey, markdown), fit(f.Value, maxFieldValue, markdown), true})
	}
	footer := fit(m.footer(), 400, markdown)
	if m.Link != "" {
		a.Title, a.TitleLink = "Open", m.Link
	}
	body := attachmentMessage{Text: "**" + fit(m.headline(), 300, markdown) + "**\n" + footer}
	if format == RocketChat {
		body.Text = "*" + fit(m.headline(), 300, markdown) + "*\n" + footer
		body.Alias, body.Emoji = "Logboom", ":bell:"
	} else {
		body.Username, a.Fallback = "Logboom", cut(m.headline(), 300)
	}
	body.Attachments = []attachment{a}
	return body
}

// googleChatText is https://developers.google.com/workspace/chat/quickstart/webhooks.
type googleChatText struct {
	Text string `json:"text"`
}

// telegramText is https://core.telegram.org/bots/api#sendmessage.
type telegramText struct {
	ChatID    string          `json:"chat_id"`
	Thread    string          `json:"message_thread_id,omitempty"`
	Text      string          `json:"text"`
	ParseMode string          `json:"parse_mode,omitempty"`
	Preview   telegramPreview `json:"link_preview_options"`
}

type telegramPreview struct {
	Disabled bool `json:"is_disabled"`
}

func telegramBody(m *Message, chat url.Values) telegramText {
	body := telegramText{ChatID: chat.Get("chat_id"), Thread: chat.Get("message_thread_id"), Preview: telegramPreview{Disabled: true}}
	if chat.Get("parse_mode") == "none" {
		body.Text = compose(m, 4096, plain, func(s string) string { return s })
		return body
	}
	body.ParseMode = "HTML"
	body.Text = compose(m, 4096, html, func(s string) string { return "<b>" + s + "</b>" })
	return body
}

// genericMessage is the body of the generic format.
type genericMessage struct {
	ID       string            `json:"id"`
	Type     string            `json:"type"` // logboom.event, .logs, .digest, .quota or .test
	Project  string            `json:"project"`
	Source   string            `json:"source"`
	Title    string            `json:"title"`
	Text     string            `json:"text"`
	Icon     string            `json:"icon"`
	Severity string            `json:"severity"`
	Fields   map[string]string `json:"fields"`
	Lines    []string          `json:"lines"`
	Count    int               `json:"count"`
	Time     time.Time         `json:"time"`
	Link     string            `json:"link"`
}

func genericBody(m *Message) genericMessage {
	body := genericMessage{
		ID: m.ID, Type: "logboom." + m.Kind, Project: m.Project, Source: m.Source, Title: m.Title, Text: m.Text, Icon: m.Icon,
		Severity: m.Severity, Fields: map[string]string{}, Lines: append([]string{}, m.Lines...), Count: max(m.Count, 1), Time: m.Time.UTC(), Link: m.Link,
	}
	for _, f := range m.Fields {
		body.Fields[f.Key] = f.Value
	}
	return body
}
