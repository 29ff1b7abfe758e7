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

// rule is what a service takes in one field.
type rule struct {
	most     int             // characters, as UTF-16 counts them; 0: not text
	required bool            // there and not empty
	items    map[string]rule // of a list's objects, or of an object
	maxItems int
}

// rules are the bodies that the services document, with their limits.
var rules = map[webhook.Format]map[string]rule{
	webhook.Slack: {
		"text": {most: 40_000, required: true},
		"blocks": {required: true, maxItems: 50, items: map[string]rule{
			"type":     {most: 30, required: true},
			"text":     {items: map[string]rule{"type": {most: 30, required: true}, "text": {most: 3000, required: true}}},
			"fields":   {maxItems: 10, items: map[string]rule{"type": {most: 30, required: true}, "text": {most: 2000, required: true}}},
			"elements": {maxItems: 10, items: map[string]rule{"type": {most: 30, required: true}, "text": {most: 3000, required: true}}},
		}},
	},
	webhook.Discord: {
		"content": {most: 2000},
		"embeds": {maxItems: 10, items: map[string]rule{
			"title": {most: 256, required: true}, "description": {most: 4096}, "url": {most: 2048}, "color": {}, "timestamp": {most: 40},
			"fields": {maxItems: 25, items: map[string]rule{"name": {most: 256, required: true}, "value": {most: 1024, required: true}, "inline": {}}},
			"footer": {items: map[string]rule{"text": {most: 2048, required: true}}},
		}},
		"allowed_mentions": {required: true, items: map[string]rule{"parse": {}}},
	},
	webhook.Teams: {
		"type": {most: 20, required: true},
		"attachments": {required: true, maxItems: 1, items: map[string]rule{
			"contentType": {most: 60, required: true},
			"content": {required: true, items: map[string]rule{
				"$schema": {most: 100, required: true}, "type": {most: 20, required: true}, "version": {most: 5, required: true},
				"body": {required: true, maxItems: 20, items: map[string]rule{
					"type": {most: 20, required: true}, "text": {most: 10_000}, "weight": {most: 10}, "size": {most: 10}, "isSubtle": {}, "wrap": {},
					"facts": {maxItems: 20, items: map[string]rule{"title": {most: 300}, "value": {most: 1000}}},
				}},
				"actions": {maxItems: 1, items: map[string]rule{"type": {most: 20, required: true}, "title": {most: 20, required: true}, "url": {most: 600, required: true}}},
			}},
		}},
	},
	webhook.Mattermost: {"text": {most: 16_383, required: true}, "username": {most: 64}, "attachments": {maxItems: 5, items: attachmentRules}},
	webhook.RocketChat: {"text": {most: 5000, required: true}, "alias": {most: 64}, "emoji": {most: 64}, "attachments": {maxItems: 5, items: attachmentRules}},
	webhook.GoogleChat: {"text": {most: 32_000, required: true}},
	webhook.Telegram: {
		"chat_id": {most: 40, required: true}, "message_thread_id": {most: 20}, "text": {most: 4096, required: true}, "parse_mode": {most: 10},
		"link_preview_options": {items: map[string]rule{"is_disabled": {}}},
	},
	webhook.Generic: {
		"id": {most: 100, required: true}, "type": {most: 40, required: true}, "project": {most: 60, required: true}, "source": {most: 100},
		"title": {most: 300, required: true}, "text": {most: 9000}, "icon": {most: 90}, "severity": {most: 10}, "fields": {}, "lines": {},
		"count": {}, "time": {most: 40, required: true}, "link": {most: 500},
	},
}

var attachmentRules = map[string]rule{
	"fallback": {most: 1000}, "color": {most: 7, required: true}, "text": {most: 8000}, "title": {most: 300}, "title_link": {most: 600}, "footer": {most: 300},
	"fields": {maxItems: 20, items: map[string]rule{"title": {most: 300}, "value": {most: 1000}, "short": {}}},
}

// sizes are the limits on a whole body, in bytes.
var sizes = map[webhook.Format]int{webhook.Teams: 21 << 10, webhook.GoogleChat: 32_000, webhook.Generic: 64 << 10}

// Check holds a body to what its service documents, and to what no text may do.
func Check(format webhook.Format, body []byte) error {
	var value object
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Errorf("invalid_payload: %w", err)
	}
	if most := sizes[format]; most > 0 && len(body) > most {
		return fmt.Errorf("%d bytes, over %d", len(body), most)
	}
	if err := fieldsOK(value, rules[format], string(format)); err != nil {
		return err
	}
	var all strings.Builder
	collect(&all, body)
	if err := tame(all.String()); err != nil {
		return err
	}
	return special(format, value)
}

// fieldsOK checks an object's fields against their rules.
func fieldsOK(value object, fields map[string]rule, at string) error {
	for name := range value {
		if _, known := fields[name]; !known {
			return fmt.Errorf("%s has a field %s that is not known", at, name)
		}
	}
	for name, r := range fields {
		found, there := value[name]
		if !there || found == "" {
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
		if n := len(utf16.Encode([]rune(v))); n > r.most {
			return fmt.Errorf("%s has %d characters, over %d", at, n, r.most)
		}
	case []any:
		if r.maxItems > 0 && len(v) > r.maxItems {
			return fmt.Errorf("%s has %d items, over %d", at, len(v), r.maxItems)
		}
		for i, one := range v {
			if inner, ok := one.(object); ok {
				if err := fieldsOK(inner, r.items, at+"."+strconv.Itoa(i)); err != nil {
					return err
				}
			}
		}
	case object:
		if r.items != nil {
			return fieldsOK(v, r.items, at)
		}
	}
	return nil
}

// special are the rules that are no limits.
func special(format webhook.Format, value object) error {
	switch format {
	case webhook.Slack:
		if err := mrkdwnOK(value["text"].(string)); err != nil {
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
			if err := blockOK(block); err != nil {
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
			return htmlOK(value["text"].(string))
		}
	}
	return nil
}

// blockOK checks the texts of a block that may hold links and mentions.
func blockOK(block object) error {
	texts, _ := block["elements"].([]any)
	fields, _ := block["fields"].([]any)
	for _, one := range append(append(texts, fields...), block["text"]) {
		if text, ok := one.(object); ok && text["type"] == "mrkdwn" {
			if err := mrkdwnOK(text["text"].(string)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ours is the one link that a message holds.
var ours = regexp.MustCompile(`<https://logs\.example\.org/[^|>]*\|open>`)

func mrkdwnOK(text string) error {
	rest := strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(ours.ReplaceAllString(text, ""))
	if strings.ContainsAny(rest, "<>&") {
		return fmt.Errorf("not escaped: %.200s", text)
	}
	return nil
}

func embedSize(value object) int {
	total := 0
	for _, one := range value["embeds"].([]any) {
		text, _ := json.Marshal(one) // it came out of JSON
		var b strings.Builder
		collect(&b, text)
		total += len(utf16.Encode([]rune(b.String())))
	}
	return total
}

// htmlOK is Telegram's parser of entities, for the one tag in use.
func htmlOK(text string) error {
	text = strings.NewReplacer("<b>", "", "</b>", "", "&amp;", "", "&lt;", "", "&gt;", "", "&quot;", "").Replace(text)
	if strings.ContainsAny(text, "<>&") {
		return fmt.Errorf("can't parse entities: %s", text)
	}
	return nil
}

// tame refuses texts that would command a screen or call people.
func tame(text string) error {
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

// collect joins all texts of a JSON value, each on its own line.
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

// signed checks a message by the rules of Standard Webhooks.
func signed(secret string, header http.Header, body string) bool {
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
