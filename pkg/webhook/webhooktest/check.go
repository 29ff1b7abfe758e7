package webhooktest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/logboom/logboom/pkg/webhook"
)

// object is a JSON object that is checked.
type object = map[string]any

// rule says what a service accepts in one field.
type rule struct {
	max      int             // length in UTF-16 code units; 0: the field is not text
	required bool            // present and not empty
	items    map[string]rule // the fields of an object, or of each object of a list
	maxItems int
}

// rules holds the bodies that the services document, with their limits.
var rules = map[webhook.Format]map[string]rule{
	webhook.Slack: {
		"text": {max: 40_000, required: true},
		"blocks": {required: true, maxItems: 50, items: map[string]rule{
			"type":     {max: 30, required: true},
			"text":     {items: map[string]rule{"type": {max: 30, required: true}, "text": {max: 3000, required: true}}},
			"fields":   {maxItems: 10, items: map[string]rule{"type": {max: 30, required: true}, "text": {max: 2000, required: true}}},
			"elements": {maxItems: 10, items: map[string]rule{"type": {max: 30, required: true}, "text": {max: 3000, required: true}}},
		}},
	},
	webhook.Discord: {
		"content": {max: 2000},
		"embeds": {maxItems: 10, items: map[string]rule{
			"title": {max: 256, required: true}, "description": {max: 4096}, "url": {max: 2048}, "color": {}, "timestamp": {max: 40},
			"fields": {maxItems: 25, items: map[string]rule{"name": {max: 256, required: true}, "value": {max: 1024, required: true}, "inline": {}}},
			"footer": {items: map[string]rule{"text": {max: 2048, required: true}}},
		}},
		"allowed_mentions": {required: true, items: map[string]rule{"parse": {}}},
	},
	webhook.Teams: {
		"type": {max: 20, required: true},
		"attachments": {required: true, maxItems: 1, items: map[string]rule{
			"contentType": {max: 60, required: true},
			"content": {required: true, items: map[string]rule{
				"$schema": {max: 100, required: true}, "type": {max: 20, required: true}, "version": {max: 5, required: true},
				"body": {required: true, maxItems: 20, items: map[string]rule{
					"type": {max: 20, required: true}, "text": {max: 10_000}, "weight": {max: 10}, "size": {max: 10}, "isSubtle": {}, "wrap": {},
					"facts": {maxItems: 20, items: map[string]rule{"title": {max: 300}, "value": {max: 1000}}},
				}},
				"actions": {maxItems: 1, items: map[string]rule{"type": {max: 20, required: true}, "title": {max: 20, required: true}, "url": {max: 600, required: true}}},
			}},
		}},
	},
	webhook.Mattermost: {"text": {max: 16_383, required: true}, "username": {max: 64}, "attachments": {maxItems: 5, items: attachmentRules}},
	webhook.RocketChat: {"text": {max: 5000, required: true}, "alias": {max: 64}, "emoji": {max: 64}, "attachments": {maxItems: 5, items: attachmentRules}},
	webhook.GoogleChat: {"text": {max: 32_000, required: true}},
	webhook.Telegram: {
		"chat_id": {max: 40, required: true}, "message_thread_id": {max: 20}, "text": {max: 4096, required: true}, "parse_mode": {max: 10},
		"link_preview_options": {items: map[string]rule{"is_disabled": {}}},
	},
	webhook.Generic: {
		"id": {max: 100, required: true}, "type": {max: 40, required: true}, "project": {max: 60, required: true}, "source": {max: 100},
		"title": {max: 300, required: true}, "text": {max: 9000}, "icon": {max: 90}, "severity": {max: 10}, "fields": {}, "lines": {},
		"count": {}, "time": {max: 40, required: true}, "link": {max: 500},
	},
}

var attachmentRules = map[string]rule{
	"fallback": {max: 1000}, "color": {max: 7, required: true}, "text": {max: 8000}, "title": {max: 300}, "title_link": {max: 600}, "footer": {max: 300},
	"fields": {maxItems: 20, items: map[string]rule{"title": {max: 300}, "value": {max: 1000}, "short": {}}},
}

// sizes holds the limits of whole bodies, in bytes.
var sizes = map[webhook.Format]int{webhook.Teams: 21 << 10, webhook.GoogleChat: 32_000, webhook.Generic: 64 << 10}

// Check returns an error if a body breaks the documented rules of its service, or
// if a text could control a screen or mention a person.
func Check(format webhook.Format, body []byte) error {
	var value object
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Errorf("invalid_payload: %w", err)
	}
	if limit := sizes[format]; limit > 0 && len(body) > limit {
		return fmt.Errorf("%d bytes, over %d", len(body), limit)
	}
	if err := checkFields(value, rules[format], string(format)); err != nil {
		return err
	}
	var all strings.Builder
	collect(&all, body)
	if err := checkHarmless(all.String()); err != nil {
		return err
	}
	return checkSpecial(format, value)
}

// checkFields checks an object's fields against their rules.
func checkFields(value object, fields map[string]rule, at string) error {
	for name := range value {
		if _, known := fields[name]; !known {
			return fmt.Errorf("%s has the unknown field %s", at, name)
		}
	}
	for name, r := range fields {
		found, present := value[name]
		if !present || found == "" {
			if r.required {
				return fmt.Errorf("%s lacks %s", at, name)
			}
			continue
		}
		if err := r.check(found, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func (r *rule) check(found any, at string) error {
	switch v := found.(type) {
	case string:
		if n := len(utf16.Encode([]rune(v))); n > r.max {
			return fmt.Errorf("%s has %d characters, over %d", at, n, r.max)
		}
	case []any:
		if r.maxItems > 0 && len(v) > r.maxItems {
			return fmt.Errorf("%s has %d items, over %d", at, len(v), r.maxItems)
		}
		for i, one := range v {
			if inner, ok := one.(object); ok {
				if err := checkFields(inner, r.items, at+"."+strconv.Itoa(i)); err != nil {
					return err
				}
			}
		}
	case object:
		if r.items != nil {
			return checkFields(v, r.items, at)
		}
	}
	return nil
}

// checkSpecial checks the rules of a service that are not limits.
func checkSpecial(format webhook.Format, value object) error {
	switch format {
	case webhook.Slack:
		if err := checkMrkdwn(value["text"].(string)); err != nil {
			return err
		}
		for _, one := range value["blocks"].([]any) {
			block := one.(object)
			if !slices.Contains([]string{"header", "section", "context"}, block["type"].(string)) {
				return fmt.Errorf("block type %v", block["type"])
			}
			if text, ok := block["text"].(object); ok && block["type"] == "header" && (text["type"] != "plain_text" || len([]rune(text["text"].(string))) > 150) {
				return fmt.Errorf("header %v", text)
			}
			if err := checkBlock(block); err != nil {
				return err
			}
		}
	case webhook.Discord:
		if parse, ok := value["allowed_mentions"].(object)["parse"].([]any); !ok || len(parse) != 0 {
			return fmt.Errorf("allowed_mentions %v", value["allowed_mentions"])
		}
		if n := embedSize(value); n > 6000 {
			return fmt.Errorf("embeds have %d characters", n)
		}
	case webhook.Teams:
		attachment := value["attachments"].([]any)[0].(object)
		if value["type"] != "message" || attachment["contentType"] != "application/vnd.microsoft.card.adaptive" {
			return fmt.Errorf("type %v with %v", value["type"], attachment["contentType"])
		}
	case webhook.Telegram:
		if value["parse_mode"] == "HTML" {
			return checkHTML(value["text"].(string))
		}
	}
	return nil
}

// checkBlock checks the texts of a block in which links and mentions work.
func checkBlock(block object) error {
	texts, _ := block["elements"].([]any)
	fields, _ := block["fields"].([]any)
	for _, one := range append(append(texts, fields...), block["text"]) {
		if text, ok := one.(object); ok && text["type"] == "mrkdwn" {
			if err := checkMrkdwn(text["text"].(string)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownLink matches the one link of a message.
var ownLink = regexp.MustCompile(`<https://logs\.example\.org/[^|>]*\|open>`)

func checkMrkdwn(text string) error {
	rest := strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(ownLink.ReplaceAllString(text, ""))
	if strings.ContainsAny(rest, "<>&") {
		return fmt.Errorf("not escaped: %.200s", text)
	}
	return nil
}

func embedSize(value object) int {
	total := 0
	for _, one := range value["embeds"].([]any) {
		text, _ := json.Marshal(one) // it was decoded from JSON
		var b strings.Builder
		collect(&b, text)
		total += len(utf16.Encode([]rune(b.String())))
	}
	return total
}

// checkHTML does what Telegram's parser does, for the one tag that is used.
func checkHTML(text string) error {
	text = strings.NewReplacer("<b>", "", "</b>", "", "&amp;", "", "&lt;", "", "&gt;", "", "&quot;", "").Replace(text)
	if strings.ContainsAny(text, "<>&") {
		return fmt.Errorf("can't parse entities: %s", text)
	}
	return nil
}

// checkHarmless refuses texts that would control a screen or mention people.
func checkHarmless(text string) error {
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return fmt.Errorf("control character %U", r)
		}
	}
	for _, call := range []string{"@everyone", "@here", "@channel", "@all", "<!", "<@", "<#", "<users/"} {
		if strings.Contains(text, call) {
			return fmt.Errorf("mention %s", call)
		}
	}
	return nil
}

// collect appends all texts of a JSON value, each on its own line.
func collect(into *strings.Builder, body []byte) {
	var value any
	if json.Unmarshal(body, &value) == nil {
		walk(into, value)
	}
}

func walk(into *strings.Builder, value any) {
	switch v := value.(type) {
	case string:
		into.WriteString(v + "\n")
	case []any:
		for _, one := range v {
			walk(into, one)
		}
	case object:
		for _, one := range v {
			walk(into, one)
		}
	}
}

// verify checks a signature by the rules of Standard Webhooks.
func verify(secret string, header http.Header, body string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	at, atErr := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	if err != nil || atErr != nil || math.Abs(time.Since(time.Unix(at, 0)).Minutes()) > 5 {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(header.Get("webhook-id") + "." + header.Get("webhook-timestamp") + "." + body))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return slices.Contains(strings.Fields(header.Get("webhook-signature")), want)
}
