package ingest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/logboom/logboom/pkg/stream"
)

func TestBodiesBeyondTheMemoryAreRefusedAtOnceAndMemoryIsReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 256 << 20})
	b.server.budget.limit = 16 << 20
	var senders sync.WaitGroup
	ends := make([]*io.PipeWriter, 3)
	for i := range ends { // three bodies of 1 MiB are half sent
		reader, writer := io.Pipe()
		ends[i] = writer
		senders.Go(func() {
			request := httptest.NewRequest(http.MethodPost, "/v1/logs/shop", reader)
			request.Header.Set("Authorization", "Bearer "+b.token)
			answer := httptest.NewRecorder()
			b.server.ServeHTTP(answer, request)
			reader.Close() // a refused body is not read further
			if answer.Code != http.StatusAccepted {
				t.Errorf("an earlier body: answer %d: %s", answer.Code, answer.Body)
			}
		})
		if _, err := io.WriteString(writer, `{"data":"`+strings.Repeat("x", 900<<10)); err != nil {
			t.Fatal(err)
		}
	}
	large := `{"data":"` + strings.Repeat("y", 1000<<10) + `"}`
	checkProblem(t, b.post("/v1/logs/shop", strings.Repeat(large+"\n", 9)), http.StatusServiceUnavailable, "queue_full")
	if answer := b.post("/v1/logs/shop", `{"data":"small"}`); answer.Code != http.StatusAccepted {
		t.Errorf("a small body: answer %d: %s", answer.Code, answer.Body)
	}
	for _, writer := range ends {
		if _, err := io.WriteString(writer, `"}`); err != nil {
			t.Fatal(err)
		}
		writer.Close()
	}
	senders.Wait()
	if held := b.server.budget.held.Load(); held != 0 {
		t.Errorf("%d bytes are held with no request in progress", held)
	}
}
