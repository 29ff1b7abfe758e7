package clickhouse

import (
	"fmt"
	"testing"
	"time"
)

func TestOperatorsSeeSizesBatchesAndDestinations(t *testing.T) {
	t.Parallel()
	c := migrated(t, "")
	now := time.Now().UTC()
	hour := now.Truncate(time.Hour)
	err := c.InsertUsage(t.Context(), "u", []UsageRow{
		{Project: "shop", Hour: hour, Measure: "logs", Records: 10, Bytes: 1000, Stream: "LOGS_0", Seq: 1},
		{Project: "shop", Hour: hour, Measure: "events", Records: 1, Bytes: 20, Stream: "LOGS_0", Seq: 1},
		{Project: "shop", Hour: hour, Measure: "dropped", Reason: "rate", Records: 7, Stream: "LOGS_0", Seq: 2},
		{Hour: hour, Measure: "batches", Records: 3, Stream: "LOGS_0", Seq: 2},
		{Project: "other", Hour: hour.Add(-48 * time.Hour), Measure: "logs", Records: 5, Bytes: 5000, Stream: "LOGS_1", Seq: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.BatchesSince(t.Context(), now); err != nil || got != (Batches{3, 11, 1020, 7}) {
		t.Errorf("batches of this hour: %+v, %v", got, err)
	}
	sizes, err := c.ProjectSizes(t.Context(), now.Add(-72*time.Hour))
	if want := "[{other 5 5000} {shop 11 1020}]"; err != nil || fmt.Sprint(sizes) != want {
		t.Errorf("sizes of projects: %v, %v, want %s", sizes, err, want)
	}
	tables, err := c.TableSizes(t.Context())
	if err != nil || len(tables) != 1 || tables[0].Table != "usage" || tables[0].Rows != 5 || tables[0].Bytes == 0 || tables[0].Newest.IsZero() {
		t.Errorf("sizes of tables: %+v, %v", tables, err)
	}
	rows := []DeliveryRow{deliveryAt(1, "e-1", DeliveryQueued, 0), deliveryAt(2, "e-1", DeliveryAttempt, 1), deliveryAt(3, "e-1", DeliveryDelivered, 2), deliveryAt(4, "e-2", DeliveryFailed, 1)}
	for _, token := range []string{"a", "b"} { // a repeated row counts once
		if err := c.InsertDeliveries(t.Context(), token, rows); err != nil {
			t.Fatal(err)
		}
	}
	chats, err := c.Destinations(t.Context(), time.Unix(0, rows[0].Time))
	if err != nil || len(chats) != 1 || chats[0].Delivered != 1 || chats[0].Failed != 1 || chats[0].State != "failed" || chats[0].Status != 201 {
		t.Errorf("destinations: %+v, %v", chats, err)
	}
	steps, err := c.DeliverySteps(t.Context(), "p", "e-1")
	if err != nil || len(steps) != 3 || steps[0].State != "queued" || steps[2].State != "delivered" || steps[2].Attempt != 2 {
		t.Errorf("steps: %+v, %v", steps, err)
	}
	if steps, err := c.DeliverySteps(t.Context(), "another", "e-1"); err != nil || len(steps) != 0 {
		t.Errorf("another project sees %+v, %v", steps, err)
	}
}
