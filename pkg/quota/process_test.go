package quota

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/logboom/logboom/pkg/redis/redistest"
)

// spenderAddress is the environment variable that turns this test binary into a
// process that uses a project's quota. It holds the address of Redis.
const spenderAddress = "QUOTA_TEST_SPENDER"

var spenderLimits = Limits{Rate: 1 << 40, DailyRecords: 20_000, MonthlyBytes: 10_000_000}

// runAsSpender charges batches until the quota is exceeded, prints the number of
// accepted records, and exits.
func runAsSpender() {
	address := os.Getenv(spenderAddress)
	if address == "" {
		return
	}
	options, err := bounded(address, patient)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	limiter := newPatient(redis.NewClient(options), Config{Now: ticking()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- limiter.Run(ctx) }()
	total := 0
	for size := 1; ; size = size%7 + 1 {
		if _, err := limiter.Charge(ctx, "shared~p", spenderLimits, size, int64(size)); err != nil {
			break
		}
		total += size
	}
	cancel()
	<-done
	fmt.Println(total)
	os.Exit(0)
}

func spend(t *testing.T, address string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), spenderAddress+"="+address)
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("spending process: %v", err)
		return 0
	}
	total, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Errorf("spending process printed %q", out)
	}
	return total
}

func TestProcessesShareOneLimit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var mu sync.Mutex
	var processes sync.WaitGroup
	total := 0
	for range 4 {
		processes.Go(func() {
			n := spend(t, server.URL())
			mu.Lock()
			defer mu.Unlock()
			total += n
		})
	}
	processes.Wait()
	// Each process has returned its lease at its end, so nothing of the rest is missing.
	rest := chargeAll(t, patientRedis(t, server, Config{Now: ticking()}), "shared~p", spenderLimits, 1, 100_000)
	if limit := int(spenderLimits.DailyRecords); total+rest < limit || total+rest >= limit+7 {
		t.Errorf("%d and then %d records were accepted, want %d in batches up to 7", total, rest, limit)
	}
}
