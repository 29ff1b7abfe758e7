package quota

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/logboom/logboom/pkg/redis/redistest"
)

// BenchmarkCheckCharge is the cost of quotas for a request that is accepted.
func BenchmarkCheckCharge(b *testing.B) {
	for _, projects := range []int{1, 1000} {
		b.Run(fmt.Sprintf("memory/projects=%d", projects), func(b *testing.B) {
			benchmark(b, NewMemory(Config{}), projects)
		})
		b.Run(fmt.Sprintf("redis/projects=%d", projects), func(b *testing.B) {
			limiter := patientRedis(b, redistest.Start(b), Config{})
			start(b, limiter)
			benchmark(b, limiter, projects)
			b.ReportMetric(float64(limiter.Stats().RoundTrips)*1000/float64(b.N), "trips/1000")
		})
	}
}

func benchmark(b *testing.B, l Limiter, projects int) {
	names := make([]string, projects)
	for i := range names {
		names[i] = fmt.Sprintf("project-%d~k3x9qa7d", i)
		request(b, l, names[i])
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			request(b, l, names[i%projects])
		}
	})
}

func request(b *testing.B, l Limiter, project string) {
	limits := Limits{Rate: 1 << 40, DailyRecords: 1 << 45, MonthlyBytes: 1 << 50}
	if err := l.Check(context.Background(), project, limits); err != nil {
		b.Fatal(err)
	}
	if _, err := l.Charge(context.Background(), project, limits, 10, 2000); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkIdleProjects is the cost of many unused projects.
func BenchmarkIdleProjects(b *testing.B) {
	const projects = 10_000
	limiter := patientRedis(b, redistest.Start(b), Config{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range projects {
		a := limiter.locked(fmt.Sprintf("project-%d~k3x9qa7d", i))
		a.setLimits(Limits{1000, 1000, 1000}, limiter.now())
		a.lastUsed = limiter.now()
		a.mu.Unlock()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ResetTimer()
	for range b.N {
		limiter.sweep(b.Context())
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/projects, "B/project")
}
