package quota

import (
	"sync/atomic"
)

// Stats are a limiter's counts since it was made.
type Stats struct {
	RefusedRate         uint64 // Takes and Spents refused by that quota
	RefusedDailyRecords uint64
	RefusedMonthlyBytes uint64

	RoundTrips uint64 // asked of Redis
	Failures   uint64 // of these, not answered in time
	Outages    uint64 // times that Redis went away
	Fallbacks  uint64 // Takes decided by what the process knows, since Redis did not say
	Away       bool   // Redis is away now

	Projects int // that the process keeps in memory
}

// counters are what Stats reads, each written where it happens.
type counters struct {
	refusedRate, refusedDaily, refusedMonthly atomic.Uint64
	roundTrips, failures, outages, fallbacks  atomic.Uint64
}

// refuse counts a refusal and gives it as an error; nil is none.
func (c *counters) refuse(e *Exceeded) error {
	if e == nil {
		return nil
	}
	switch e.Quota {
	case Rate:
		c.refusedRate.Add(1)
	case DailyRecords:
		c.refusedDaily.Add(1)
	case MonthlyBytes:
		c.refusedMonthly.Add(1)
	}
	return e
}

func (c *counters) stats() Stats {
	return Stats{
		RefusedRate:         c.refusedRate.Load(),
		RefusedDailyRecords: c.refusedDaily.Load(),
		RefusedMonthlyBytes: c.refusedMonthly.Load(),
		RoundTrips:          c.roundTrips.Load(),
		Failures:            c.failures.Load(),
		Outages:             c.outages.Load(),
		Fallbacks:           c.fallbacks.Load(),
	}
}
