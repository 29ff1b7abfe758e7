package ingest

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/stream"
)

func TestIdleConnectionIsParkedAndAnsweredAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	address := "http://" + b.listen(t) + "/v1/logs/shop"
	dialled := 0
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled++
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	sender := &http.Client{Transport: transport, Timeout: patience}
	for range 2 {
		b.sendOver(t, sender, address)
		if runtime.GOOS == "linux" {
			b.parks(t)
		}
	}
	if dialled != 1 {
		t.Errorf("%d connections for two requests", dialled)
	}
}

func (b *bench) sendOver(t *testing.T, sender *http.Client, address string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(`{"data":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+b.token)
	response, err := sender.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusAccepted {
		t.Fatalf("answer %d: %s, %v", response.StatusCode, body, err)
	}
}

// parks waits until the metrics show one parked connection, and no other.
func (b *bench) parks(t *testing.T) {
	t.Helper()
	late := time.After(patience)
	for b.connections(t, "parked") != 1 || b.connections(t, "served") != 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			t.Fatalf("%v connections are parked, %v served", b.connections(t, "parked"), b.connections(t, "served"))
		}
	}
}

// connections is the metric of a state.
func (b *bench) connections(t *testing.T, state string) float64 {
	t.Helper()
	families, err := b.server.deps.Registry.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "logboom_ingest_connections" && metric.GetLabel()[0].GetValue() == state {
				return metric.GetGauge().GetValue()
			}
		}
	}
	return -1 // the port is not open yet
}
