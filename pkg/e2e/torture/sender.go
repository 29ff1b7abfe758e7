//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	answerTimeout = 15 * time.Second
	retryPause    = 300 * time.Millisecond
	// A request with a key is retried for so long: the queue remembers its key for
	// two minutes, and a retry after that would be another request.
	repeatFor = 80 * time.Second
	maxBody   = 1000 // records in one request
)

// load sends numbered records to several ingest processes at once.
type load struct {
	journal *journal
	urls    []string // of the ingest processes
	project string
	token   string
	rate    int      // records per second of all senders
	kinds   []string // logs, events
	seed    uint64
	odd     func(format string, arguments ...any) // called with what should not happen
}

// run sends until sending ends, and completes the requests in progress. When ctx
// ends it stops at once.
func (l *load) run(ctx, sending context.Context) error {
	var group errgroup.Group
	for id := range l.journal.pages {
		s := &sender{
			load:   l,
			id:     id,
			page:   &l.journal.pages[id],
			random: rand.New(rand.NewPCG(l.seed, uint64(id))),
			client: &http.Client{Timeout: answerTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true}},
		}
		group.Go(func() error {
			defer s.client.CloseIdleConnections()
			s.run(ctx, sending)
			return nil
		})
	}
	return group.Wait()
}

// sender is one connection's worth of load.
type sender struct {
	*load
	id     int
	page   *page
	random *rand.Rand
	client *http.Client
	next   int // number of the next record
	keys   int
}

func (s *sender) run(ctx, sending context.Context) {
	perRecord := time.Second * time.Duration(len(s.journal.pages)) / time.Duration(s.rate)
	due := time.Now()
	for sending.Err() == nil {
		request := s.plan()
		s.page.add(s.send(ctx, request))
		// What was not sent while the system was away is not sent later.
		if due = due.Add(time.Duration(request.count) * perRecord); time.Since(due) > time.Second {
			due = time.Now()
		}
		_ = pause(sending, time.Until(due))
	}
}

// plan returns a random next request: a single record, or newline-delimited
// records; one in four has a key.
func (s *sender) plan() sent {
	request := sent{first: s.next, count: 1, kind: s.kinds[0]}
	switch draw := s.random.IntN(100); {
	case draw < 30:
	case draw < 85:
		request.count = 10 + s.random.IntN(190)
	default:
		request.count = 200 + s.random.IntN(maxBody-200+1)
	}
	if len(s.kinds) > 1 && s.random.IntN(10) == 0 {
		request.kind = s.kinds[1]
	}
	if s.random.IntN(4) == 0 {
		s.keys++
		request.key = fmt.Sprintf("sender-%d-%d", s.id, s.keys)
	}
	s.next += request.count
	return request
}

// send sends a request and determines its fate.
func (s *sender) send(ctx context.Context, request sent) sent {
	body := s.body(request)
	request.began = time.Now()
	request.fate, request.detail = s.post(ctx, request, body)
	if request.key == "" {
		return request
	}
	// A client without an answer sends again with the same key. A refusal after an
	// attempt that may have been stored says nothing about that attempt.
	for request.fate == unknown && time.Since(request.began) < repeatFor && pause(ctx, retryPause) == nil {
		if fate, _ := s.post(ctx, request, body); fate == accepted {
			request.fate, request.detail = accepted, ""
		}
	}
	if request.fate == accepted && time.Since(request.began) < repeatFor {
		s.post(ctx, request, body) // the answer changes nothing
	}
	return request
}

func (s *sender) body(request sent) []byte {
	field := `{"data":"`
	if request.kind == "events" {
		field = `{"channel":"torture","title":"`
	}
	var body []byte
	for number := request.first; number < request.first+request.count; number++ {
		body = append(body, field...)
		body = identity{s.id, number}.appendText(body)
		body = append(body, "\"}\n"...)
	}
	return body
}

// post makes one attempt, at a random ingest process.
func (s *sender) post(ctx context.Context, request sent, body []byte) (fate, string) {
	address := s.urls[s.random.IntN(len(s.urls))] + "/v1/" + request.kind + "/" + s.project
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return refused, err.Error()
	}
	r.GetBody = nil // otherwise the transport itself would retry a failed request
	r.Header.Set("Authorization", "Bearer "+s.token)
	if request.key != "" {
		r.Header["Idempotency-Key"] = []string{request.key}
	}
	response, err := s.client.Do(r)
	if err != nil {
		return fateOfFailure(err), reason(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil && response.StatusCode != http.StatusAccepted {
		return unknown, reason(err)
	}
	return s.judge(request, response.StatusCode, answer)
}

// judge returns what an answer promises.
func (s *sender) judge(request sent, status int, body []byte) (fate, string) {
	var answer struct {
		Accepted     int
		Code, Detail string
	}
	_ = json.Unmarshal(body, &answer) // another body leaves it empty
	f := fateOf(status, answer.Code, answer.Detail)
	if f == accepted {
		if len(body) > 0 && answer.Accepted != request.count {
			s.odd("%d records were sent, and %d accepted: %s", request.count, answer.Accepted, body)
		}
		return accepted, ""
	}
	if status < 500 {
		s.odd("answer %d to good records: %s", status, body)
	}
	return f, fmt.Sprintf("answer %d %s: %s", status, answer.Code, answer.Detail)
}

// fateOf returns what an answer promises. queue_unavailable may come after the
// records were published; earlier errors have other codes.
func fateOf(status int, code, detail string) fate {
	switch {
	case status == http.StatusAccepted:
		return accepted
	case status < 500:
		return refused
	case code == "queue_full", code == "draining":
		return refused
	case strings.Contains(detail, "nothing was accepted"), strings.Contains(detail, "token could not be checked"):
		return refused
	}
	return unknown
}

// fateOfFailure returns what a failed connection means: without a listener, nothing
// was sent.
func fateOfFailure(err error) fate {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return refused
	}
	return unknown
}

func reason(err error) string {
	text := err.Error()
	if at := strings.LastIndex(text, "\": "); at >= 0 {
		text = text[at+3:] // without the address
	}
	return text
}
