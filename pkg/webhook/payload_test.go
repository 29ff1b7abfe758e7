package webhook_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/webhook"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

var update = flag.Bool("update", false, "overwrite the golden payloads")

// formats holds every format.
var formats = []webhook.Format{
	webhook.Slack, webhook.Discord, webhook.Teams, webhook.Mattermost, webhook.RocketChat, webhook.GoogleChat, webhook.Telegram, webhook.Generic,
}

// messages returns the messages whose bodies are in testdata.
func messages() map[string]webhook.Message {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return map[string]webhook.Message{
		"event": {
			ID: "0-17-0", Kind: "event", Project: "shop", Source: "#deploys", Title: "v2.1 is out", Text: "Two services & one job.\nAll well.", Icon: "🚀",
			Fields: []webhook.Field{{Key: "commit", Value: "1f2e3d"}, {Key: "by", Value: "ci"}}, Time: at, Link: "https://logs.example.org/projects/shop/events?q=id%3A0-17-0",
		},
		"digest": {
			ID: "d-4-40", Kind: "digest", Project: "shop", Title: "38 alerts", Lines: []string{"sign-up", "payment <failed>"}, Count: 38, Time: at,
		},
		"hostile": {
			ID: "1-2-3", Kind: "logs", Project: "shop", Source: "web\x1b[31m", Severity: "error", Time: at, Repeat: true,
			Title: "@everyone <!channel> <users/all>\r\nforged: line \u202Egnp.exe",
			Text:  "@here @channel <@U123> <#C1> <https://evil.example|click> [a](http://x) `code` *bold* _it_ ~~no~~ ||spoiler|| </b><script>\x00\x9b2J\u2066 =cmd|' /C calc'!A0",
			Count: 3,
		},
	}
}

// post sends a message to a chat of the test and returns the accepted body.
func post(t *testing.T, format webhook.Format, m webhook.Message) []byte {
	t.Helper()
	signer := webhook.NewSigner("a key of the installation")
	secret, err := signer.Secret("shop~1")
	if err != nil {
		t.Fatal(err)
	}
	chat := webhooktest.Start(t, format, secret)
	r := senderTo(t, chat, webhook.Config{Signer: signer}).Deliver(t.Context(), webhook.Target{Address: chat.Address(), Format: format, ProjectID: "shop~1"}, m)
	got := chat.Messages()
	if r.Outcome != webhook.Delivered || len(got) != 1 {
		t.Fatalf("%s: %s %d, accepted %d: %.300v", format, r.Outcome, r.Status, len(got), chat.Refused())
	}
	if got[0].ID != m.ID || got[0].Repeat != (m.Repeat && !format.Idempotent()) {
		t.Errorf("%s accepted %+v", format, got[0])
	}
	return []byte(got[0].Body)
}

func senderTo(t *testing.T, chat *webhooktest.Chat, cfg webhook.Config) *webhook.Sender {
	t.Helper()
	allow, err := webhook.ParseAllowList([]string{chat.HostPort()})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Allow, cfg.Roots, cfg.Timeout = allow, chat.Roots(), patience
	return webhook.NewSender(cfg)
}

func TestEachServiceAcceptsItsBody(t *testing.T) {
	t.Parallel()
	for _, format := range formats {
		for name, m := range messages() {
			t.Run(string(format)+" "+name, func(t *testing.T) {
				t.Parallel()
				var pretty bytes.Buffer
				if err := json.Indent(&pretty, post(t, format, m), "", "  "); err != nil {
					t.Fatal(err)
				}
				file := filepath.Join("testdata", string(format)+"-"+name+".json")
				if *update {
					if err := os.WriteFile(file, append(pretty.Bytes(), '\n'), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if got := pretty.String(); got != strings.TrimSuffix(string(want), "\n") {
					t.Errorf("the body differs from %s:\n%s", file, got)
				}
			})
		}
	}
}

func TestLongTextsAreCutAndLeaveRoomForTheLink(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{"letters": "word ", "escapes": "<&>\"*_`[", "emoji": "👩‍🚀", "lines": "x\n", "backslashes": `\`} {
		long := strings.Repeat(unit, 200_000/len(unit))
		m := webhook.Message{
			ID: "0-1-2", Kind: "event", Project: strings.Repeat("p", 40), Source: long, Title: long, Text: long, Icon: long,
			Time: time.Now(), Link: "https://logs.example.org/projects/shop/events?q=" + strings.Repeat("i", 300),
		}
		for range 50 {
			m.Fields = append(m.Fields, webhook.Field{Key: long, Value: long})
		}
		digest := m
		digest.ID, digest.Count = "d-1-9", 90
		for range 50 {
			digest.Lines = append(digest.Lines, long)
		}
		for _, format := range formats {
			t.Run(name+" "+string(format), func(t *testing.T) {
				t.Parallel()
				for _, m := range []webhook.Message{m, digest} {
					if body := post(t, format, m); !bytes.Contains(body, []byte(strings.Repeat("i", 300))) {
						t.Errorf("the link is not in the body: %.500s", body)
					}
				}
			})
		}
	}
}

func TestResolveChoosesTheFormatByTheAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]webhook.Format{
		"https://hooks.slack.com/services/T/B/x":                               webhook.Slack,
		"https://hooks.slack.com/triggers/T/1/x":                               webhook.Slack,
		"https://hooks.slack-gov.com/services/T/B/x":                           webhook.Slack,
		"https://discord.com/api/webhooks/123/abc":                             webhook.Discord,
		"https://canary.discord.com/api/v10/webhooks/123/abc":                  webhook.Discord,
		"https://ptb.discordapp.com/api/webhooks/123/abc":                      webhook.Discord,
		"https://discord.com/other":                                            webhook.Generic,
		"https://prod-1.westeurope.logic.azure.com:443/workflows/1/triggers/x": webhook.Teams,
		"https://x.01.environment.api.powerplatform.com:443/powerautomate/x":   webhook.Teams,
		"https://chat.example.org/hooks/abcdefghijklmnopqrstuvwxyz":            webhook.Mattermost,
		"https://chat.example.org/hooks/65f0/abcdefghijklmnopqrstuvwxyz":       webhook.RocketChat,
		"https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t":       webhook.GoogleChat,
		"https://api.telegram.org/bot1:a/sendMessage?chat_id=1":                webhook.Telegram,
		"https://example.org/anything":                                         webhook.Generic,
		"https://hooks.slack.com.example.org/services/T/B/x":                   webhook.Generic,
		"https://example.org/?x=https://hooks.slack.com/services/":             webhook.Generic,
	} {
		if got := webhook.Resolve(webhook.Auto, address); got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
		if got := webhook.Resolve(webhook.Discord, address); got != webhook.Discord {
			t.Errorf("%s: an explicit format became %s", address, got)
		}
	}
}

func FuzzEachServiceAcceptsAnyText(f *testing.F) {
	f.Add("@everyone", "<!channel> \x1b[2J", "k", "v")
	f.Add("\xff\xfe", "\u202e", "`", "]")
	f.Fuzz(func(t *testing.T, title, text, key, value string) {
		m := webhook.Message{
			ID: "0-1-2", Kind: "event", Project: "p", Title: "t" + title, Text: text, Fields: []webhook.Field{{Key: "k" + key, Value: "v" + value}}, Time: time.Now(),
		}
		for _, format := range formats {
			body, err := webhook.Body(format, m)
			if err == nil {
				err = webhooktest.Check(format, body)
			}
			if err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
	})
}
