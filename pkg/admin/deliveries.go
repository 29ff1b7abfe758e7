package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/logboom/logboom/pkg/clickhouse"
)

// Deliveries are the notifications and what became of them; clickhouse.Client
// has them.
type Deliveries interface {
	Deliveries(ctx context.Context, q clickhouse.DeliveryQuery) (clickhouse.DeliveryPage, error)
}

// deliveryPage is a page as it is answered.
type deliveryPage = clickhouse.DeliveryPage

// noDeliveries stands where the service was given none.
type noDeliveries struct{}

func (noDeliveries) Deliveries(context.Context, clickhouse.DeliveryQuery) (deliveryPage, error) {
	return deliveryPage{Deliveries: []clickhouse.Delivery{}}, nil
}

// deliveries answers a page of a project's notifications, newest first.
func (s *Server) deliveries(r *request) error {
	limit, err := readLimit(r)
	if err != nil {
		return err
	}
	from, to, err := between(r)
	if err != nil {
		return err
	}
	q := clickhouse.DeliveryQuery{Project: r.project.ID, From: from, To: to, State: r.QueryParam("state"), Limit: limit, Cursor: r.QueryParam("cursor")}
	if q.State != "" && !slices.Contains(clickhouse.DeliveryStates(), q.State) {
		return &fieldError{"state", "must be one of " + strings.Join(clickhouse.DeliveryStates(), ", ")}
	}
	if len(q.Cursor) > maxCursor {
		return &fieldError{"cursor", "not one that was given out"}
	}
	ctx, cancel := context.WithTimeout(r.Request().Context(), s.cfg.QueryTimeout)
	defer cancel()
	page, err := s.deps.Deliveries.Deliveries(ctx, q)
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, page)
}
