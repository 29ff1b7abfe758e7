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

// object is a JSON object.
type object = map[string]any

// payload returns the body that carries a message in a format. Texts only ever
// get into JSON through the encoder.
func payload(format Format, address *url.URL, chat url.Values, m Message) ([]byte, error) {
	m = m.cleaned()
	var value any
	switch format {
	case Slack:
		if strings.Contains(address.Path, "/services/") {
			value = slackBody(&m)
		} else {
			value = slackVariables(&m)
		}
	case Discord:
		value = discordBody(&m)
	case Teams:
		value = teamsBody(&m)
	case Mattermost, RocketChat:
		value = attachmentBody(format, &m)
	case GoogleChat:
		value = googleChatBody(&m)
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

// slackBody follows https://api.slack.com/messaging/webhooks and
// https://api.slack.com/reference/block-kit/blocks.
func slackBody(m *Message) object {
	mrkdwnText := func(text string) object { return object{"type": "mrkdwn", "text": text} }
	blocks := []object{{"type": "header", "text": object{"type": "plain_text", "text": cut(m.headline(), 150)}}}
	if text := fit(m.body(), 3000, mrkdwn); text != "" {
		blocks = append(blocks, object{"type": "section", "text": mrkdwnText(text)})
	}
	if len(m.Fields) > 0 {
		fields := []object{}
		for _, f := range m.Fields {
			fields = append(fields, mrkdwnText("*"+fit(f.Key, maxFieldKey, mrkdwn)+"*\n"+fit(f.Value, 500, mrkdwn)))
		}
		blocks = append(blocks, object{"type": "section", "fields": fields})
	}
	context := fit(m.footer(), 1000, mrkdwn)
	if m.Link != "" {
		context += " · <" + m.Link + "|open>"
	}
	blocks = append(blocks, object{"type": "context", "elements": []object{mrkdwnText(context)}})
	return object{"text": fit(m.headline(), 500, mrkdwn), "blocks": blocks} // text is for notifications and old clients
}

// slackVariables returns the flat variables of a workflow's trigger.
func slackVariables(m *Message) object {
	return object{
		"id": m.ID, "project": m.Project, "source": m.Source, "title": fit(m.headline(), 300, mrkdwn), "text": fit(m.body(), 3000, mrkdwn),
		"footer": fit(m.footer(), 1000, mrkdwn), "link": m.Link,
	}
}

// discordBody follows
// https://discord.com/developers/docs/resources/webhook#execute-webhook. It stays
// under 6,000 characters in total: 256 + 2,600 + 10 × 210 + 400.
func discordBody(m *Message) object {
	embed := object{
		"title": fit(m.headline(), 256, markdown), "color": m.colour(),
		"timestamp": m.Time.UTC().Format(time.RFC3339), "footer": object{"text": cut(m.footer(), 400)},
	}
	if text := fit(m.body(), 2600, markdown); text != "" {
		embed["description"] = text
	}
	if m.Link != "" {
		embed["url"] = m.Link
	}
	fields := []object{}
	for _, f := range m.Fields {
		fields = append(fields, object{"name": fit(cmp.Or(f.Key, "-"), maxFieldKey, markdown), "value": fit(cmp.Or(f.Value, "-"), maxFieldValue, markdown), "inline": true})
	}
	if len(fields) > 0 {
		embed["fields"] = fields
	}
	// An empty list of allowed mentions forbids all of them.
	return object{"content": "", "embeds": []object{embed}, "allowed_mentions": object{"parse": []string{}}}
}

// teamsBody is the message of a workflow, with an adaptive card:
// https://learn.microsoft.com/power-automate/teams/send-a-message-in-teams and
// https://adaptivecards.io/explorer/AdaptiveCard.html. It stays under 21 KB: its
// text has at most 4,000 bytes, and the longest escape, that of a line end, has
// four bytes in JSON.
func teamsBody(m *Message) object {
	blocks := []object{{"type": "TextBlock", "text": fit(m.headline(), 500, markdownBytes), "weight": "Bolder", "size": "Medium", "wrap": true}}
	if text := fit(m.body(), 4000, markdownBytes); text != "" {
		blocks = append(blocks, object{"type": "TextBlock", "text": strings.ReplaceAll(text, "\n", "\n\n"), "wrap": true})
	}
	if len(m.Fields) > 0 {
		facts := []object{}
		for _, f := range m.Fields {
			facts = append(facts, object{"title": fit(f.Key, 100, markdownBytes), "value": fit(f.Value, 300, markdownBytes)})
		}
		blocks = append(blocks, object{"type": "FactSet", "facts": facts})
	}
	blocks = append(blocks, object{"type": "TextBlock", "text": fit(m.footer(), 500, markdownBytes), "size": "Small", "isSubtle": true, "wrap": true})
	card := object{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": blocks}
	if m.Link != "" {
		card["actions"] = []object{{"type": "Action.OpenUrl", "title": "Open", "url": m.Link}}
	}
	return object{"type": "message", "attachments": []object{{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}}}
}

// attachmentBody is the message of Mattermost and Rocket.Chat:
// https://developers.mattermost.com/integrate/reference/message-attachments and
// https://docs.rocket.chat/docs/integrations. It stays under the limits for all
// texts of a message together: 16,383 characters in Mattermost and 5,000 in
// Rocket.Chat.
func attachmentBody(format Format, m *Message) object {
	limit := 2000
	if format == Mattermost {
		limit = 7000
	}
	attachment := object{"color": fmt.Sprintf("#%06x", m.colour()), "text": fit(m.body(), limit, markdown)}
	if m.Link != "" {
		attachment["title"], attachment["title_link"] = "Open", m.Link
	}
	fields := []object{}
	for _, f := range m.Fields {
		fields = append(fields, object{"title": fit(f.Key, maxFieldKey, markdown), "value": fit(f.Value, maxFieldValue, markdown), "short": true})
	}
	if len(fields) > 0 {
		attachment["fields"] = fields
	}
	headline, footer := fit(m.headline(), 300, markdown), fit(m.footer(), 400, markdown)
	body := object{"attachments": []object{attachment}}
	if format == RocketChat {
		body["text"], body["alias"], body["emoji"] = "*"+headline+"*\n"+footer, "Logboom", ":bell:"
	} else {
		attachment["fallback"] = cut(m.headline(), 300)
		body["text"], body["username"] = "**"+headline+"**\n"+footer, "Logboom"
	}
	return body
}

// googleChatBody follows
// https://developers.google.com/workspace/chat/quickstart/webhooks.
func googleChatBody(m *Message) object {
	return object{"text": compose(m, 12_000, plainBytes, func(s string) string { return s })}
}

// telegramBody follows https://core.telegram.org/bots/api#sendmessage.
func telegramBody(m *Message, chat url.Values) object {
	body := object{"chat_id": chat.Get("chat_id"), "link_preview_options": object{"is_disabled": true}}
	if thread := chat.Get("message_thread_id"); thread != "" {
		body["message_thread_id"] = thread
	}
	if chat.Get("parse_mode") == "none" {
		body["text"] = compose(m, 4096, plain, func(s string) string { return s })
		return body
	}
	body["parse_mode"] = "HTML"
	body["text"] = compose(m, 4096, html, func(s string) string { return "<b>" + s + "</b>" })
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
