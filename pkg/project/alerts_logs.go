package project

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// AlertsRevision moves on with every change of any project's alerts.
func (s *Store) AlertsRevision(ctx context.Context) (uint64, error) {
	return s.alerts.last(ctx)
}

// LogSeverities tells from which severity word on projects are to be told of
// their logs, by project ID. Projects that have no address are not among them;
// one that was deleted a moment ago may be.
func (s *Store) LogSeverities(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	err := s.alerts.scan(ctx, alertKeys+"*", func(entry jetstream.KeyValueEntry) error {
		var document alertsDocument
		if err := json.Unmarshal(entry.Value(), &document); err != nil {
			return fmt.Errorf("read %s: %w", entry.Key(), err)
		}
		delete(found, document.ProjectID)
		if document.MinSeverity != "" && document.WebhookURL.holdsText() {
			found[document.ProjectID] = document.MinSeverity
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
