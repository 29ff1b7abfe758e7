package clickhouse

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// secondsFrom returns the time that many seconds after a time in nanoseconds.
func secondsFrom(nanos int64, seconds int) time.Time {
	return time.Unix(0, nanos).UTC().Add(time.Duration(seconds) * time.Second)
}

func deliveryAt(second int, event string, state DeliveryState, attempt uint16) DeliveryRow {
	return DeliveryRow{
		Project: "p", Time: secondsFrom(noon, second).UnixNano(), Event: event, Destination: "chat/…WXYZ",
		Format: "slack", Attempt: attempt, State: state, Status: 200 + attempt, Answer: "ok", Detail: "d",
	}
}

func TestDeliveriesShowTheNewestStateOfEachNotification(t *testing.T) {
	t.Parallel()
	c := migrated(t, "")
	rows := []DeliveryRow{
		deliveryAt(1, "e-1", DeliveryQueued, 0), deliveryAt(2, "e-1", DeliveryAttempt, 1), deliveryAt(3, "e-1", DeliveryDelivered, 2),
		deliveryAt(4, "e-2", DeliveryQueued, 0), deliveryAt(4, "e-2", DeliveryFailed, 1),
		deliveryAt(5, "e-3", DeliveryQueued, 0),
	}
	other := deliveryAt(6, "e-9", DeliveryQueued, 0)
	other.Project = "another"
	for _, token := range []string{"a", "b"} { // a repeated row changes nothing
		if err := c.InsertDeliveries(t.Context(), token, append(rows, other)); err != nil {
			t.Fatal(err)
		}
	}
	page, err := c.Deliveries(t.Context(), DeliveryQuery{Project: "p"})
	if err != nil || len(page.Deliveries) != 3 || page.Next != "" {
		t.Fatalf("%+v: %v", page, err)
	}
	want := Delivery{
		ID: "e-1", State: "delivered", Attempts: 2, Destination: "chat/…WXYZ", Format: "slack", Status: 202, Answer: "ok", Detail: "d",
		Queued: secondsFrom(noon, 1), Changed: secondsFrom(noon, 3),
	}
	if got := page.Deliveries[2]; got != want {
		t.Errorf("the oldest is %+v, want %+v", got, want)
	}
	if page.Deliveries[0].State != "queued" || page.Deliveries[1].State != "failed" {
		t.Errorf("the newer ones are %+v", page.Deliveries[:2])
	}
	failed, err := c.Deliveries(t.Context(), DeliveryQuery{Project: "p", State: "failed"})
	if err != nil || len(failed.Deliveries) != 1 || failed.Deliveries[0].ID != "e-2" {
		t.Errorf("the failed ones are %+v: %v", failed, err)
	}
	since, err := c.Deliveries(t.Context(), DeliveryQuery{Project: "p", From: want.Queued.Add(time.Second), To: want.Queued.Add(4 * time.Second)})
	if err != nil || len(since.Deliveries) != 1 || since.Deliveries[0].ID != "e-2" {
		t.Errorf("the ones in the time range are %+v: %v", since, err)
	}
}

func TestPagesOfDeliveriesTogetherListAll(t *testing.T) {
	t.Parallel()
	c := migrated(t, "")
	var rows []DeliveryRow
	for i := range 25 { // five share each second
		rows = append(rows, deliveryAt(i/5, fmt.Sprintf("e-%02d", i), DeliveryQueued, 0))
	}
	if err := c.InsertDeliveries(t.Context(), "t", rows); err != nil {
		t.Fatal(err)
	}
	seen, cursor := map[string]bool{}, ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		page, err := c.Deliveries(t.Context(), DeliveryQuery{Project: "p", Limit: 7, Cursor: cursor})
		if err != nil || pages > 4 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, d := range page.Deliveries {
			if seen[d.ID] {
				t.Errorf("%s is listed twice", d.ID)
			}
			seen[d.ID] = true
		}
		cursor = page.Next
	}
	if len(seen) != 25 {
		t.Errorf("%d of 25 are listed", len(seen))
	}
}

func TestInvalidDeliveryQueriesAreRefused(t *testing.T) {
	t.Parallel()
	c := migrated(t, "")
	foreign := deliveryCursor("another", 1, "e-1")
	for name, q := range map[string]DeliveryQuery{
		"limit": {Limit: 1001}, "state": {State: "lost"}, "cursor": {Cursor: "x"}, "cursor of another": {Cursor: foreign},
		"cursor with a line end": {Cursor: deliveryCursor("p", 1, "e-1") + "\n"},
	} {
		q.Project = "p"
		var invalid *InvalidError
		if _, err := c.Deliveries(t.Context(), q); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
