package clickhouse

import (
	"context"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// The reads in this file cover all projects. They are for operators, not for a
// project's members.

// TableSize is the size of a table.
type TableSize struct {
	Table  string
	Parts  uint64
	Rows   uint64
	Bytes  uint64 // on the disk, compressed
	Plain  uint64 // the same before compression
	Newest time.Time
}

// TableSizes returns the sizes of the tables on the server that answers.
func (c *Client) TableSizes(ctx context.Context) ([]TableSize, error) {
	list := []TableSize{}
	err := c.each(ctx, statement("table_sizes"), nil, func(rows driver.Rows) (bool, error) {
		var one TableSize
		err := rows.Scan(&one.Table, &one.Parts, &one.Rows, &one.Bytes, &one.Plain, &one.Newest)
		list = append(list, one)
		return true, err
	})
	if err != nil {
		return nil, readError("sizes of tables", err)
	}
	return list, nil
}

// Batches is what the writers have stored since some hour.
type Batches struct {
	Batches, Records, Bytes, Dropped uint64
}

// BatchesSince counts batches and records of all projects, from the hour of since
// on.
func (c *Client) BatchesSince(ctx context.Context, since time.Time) (Batches, error) {
	var b Batches
	err := c.each(ctx, statement("batches_since"), []any{ch.Named("since", seconds(since.Truncate(time.Hour), 0))}, func(rows driver.Rows) (bool, error) {
		return true, rows.Scan(&b.Batches, &b.Records, &b.Bytes, &b.Dropped)
	})
	if err != nil {
		return b, readError("batches", err)
	}
	return b, nil
}

// ProjectSize is what a project has stored in some time.
type ProjectSize struct {
	Project string // its id
	Records uint64
	Bytes   uint64 // of text, before compression
}

// maxProjectSizes bounds an answer of ProjectSizes.
const maxProjectSizes = 10

// ProjectSizes returns the projects that have stored most since some time, the
// largest first.
func (c *Client) ProjectSizes(ctx context.Context, since time.Time) ([]ProjectSize, error) {
	list := []ProjectSize{}
	arguments := []any{ch.Named("since", seconds(since.Truncate(time.Hour), 0)), ch.Named("limit", maxProjectSizes)}
	err := c.each(ctx, statement("project_sizes"), arguments, func(rows driver.Rows) (bool, error) {
		var one ProjectSize
		err := rows.Scan(&one.Project, &one.Records, &one.Bytes)
		list = append(list, one)
		return true, err
	})
	if err != nil {
		return nil, readError("sizes of projects", err)
	}
	return list, nil
}

// DestinationState summarizes the recent notifications to one destination.
type DestinationState struct {
	Destination, Format string
	Delivered, Failed   uint64
	Last                time.Time
	State               string // of the newest notification
	Status              int
	Detail              string
}

// maxDestinations bounds an answer of Destinations.
const maxDestinations = 50

// Destinations returns the destinations of notifications of all projects since
// some time, the most recently used first.
func (c *Client) Destinations(ctx context.Context, since time.Time) ([]DestinationState, error) {
	list := []DestinationState{}
	arguments := []any{ch.Named("since", nanoseconds(since, 0)), ch.Named("limit", maxDestinations)}
	err := c.each(ctx, statement("destinations"), arguments, func(rows driver.Rows) (bool, error) {
		var one DestinationState
		var status uint16
		err := rows.Scan(&one.Destination, &one.Format, &one.Delivered, &one.Failed, &one.Last, &one.State, &status, &one.Detail)
		one.Status = int(status)
		list = append(list, one)
		return true, err
	})
	if err != nil {
		return nil, readError("destinations", err)
	}
	return list, nil
}

// DeliveryStep is a state that a notification entered.
type DeliveryStep struct {
	Time                time.Time
	Attempt             int
	State               string
	Destination, Format string
	Status              int
	Answer, Detail      string
}

// maxDeliverySteps bounds an answer of DeliverySteps.
const maxDeliverySteps = 100

// DeliverySteps returns the history of one notification, the oldest step first.
// The caller has checked the right to read the project.
func (c *Client) DeliverySteps(ctx context.Context, project, id string) ([]DeliveryStep, error) {
	list := []DeliveryStep{}
	arguments := []any{ch.Named("project", project), ch.Named("event", id), ch.Named("limit", maxDeliverySteps)}
	err := c.each(ctx, statement("delivery_steps"), arguments, func(rows driver.Rows) (bool, error) {
		var one DeliveryStep
		var attempt, status uint16
		err := rows.Scan(&one.Time, &attempt, &one.State, &one.Destination, &one.Format, &status, &one.Answer, &one.Detail)
		one.Attempt, one.Status = int(attempt), int(status)
		list = append(list, one)
		return true, err
	})
	if err != nil {
		return nil, readError("deliveries", err)
	}
	return list, nil
}
