package writer

import (
	"context"
	"strings"
	"time"
)

// Tables tells what ClickHouse has lost sight of; clickhouse.Client does.
type Tables interface {
	SetAside(ctx context.Context) ([]string, error)
}

// setAsideEvery is how often ClickHouse is asked for broken parts. They appear
// only when it starts.
const setAsideEvery = time.Minute

// watchSetAside raises the alarm where ClickHouse has put parts aside as broken:
// rows that were stored and committed are missing then, and it says so in a
// line of its own log only. It goes on after the alarm, since what arrives is
// stored all the same.
func (w *Writer) watchSetAside(ctx context.Context) error {
	told := 0
	for {
		if w.deps.Tables != nil {
			if parts, err := w.deps.Tables.SetAside(ctx); err == nil {
				w.metrics.setAside.Set(float64(len(parts)))
				if len(parts) > told {
					w.deps.Logger.Error("ClickHouse has put parts aside as broken: stored rows are missing; look into system.detached_parts, repair and attach them, or drop them",
						"parts", strings.Join(parts[:min(len(parts), 10)], " "))
				}
				told = len(parts)
			}
		}
		if err := pause(ctx, setAsideEvery); err != nil {
			return err
		}
	}
}
