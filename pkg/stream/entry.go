package stream

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// fields are the parts of a JSON object that this version does not know. They
// are written back as they were, so that an older process does not take away
// what a newer one keeps in the ledger.
type fields map[string]json.RawMessage

// positionJSON and intentJSON are the ledger's format.
type positionJSON struct {
	Epoch       uint64          `json:"epoch"`
	Committed   uint64          `json:"committed"`
	CommittedAt int64           `json:"committed_at,omitempty"` // Unix nanoseconds
	Owner       string          `json:"owner"`
	Intent      json.RawMessage `json:"intent,omitempty"`
}

type intentJSON struct {
	From        uint64            `json:"from"`
	To          uint64            `json:"to"`
	ReceivedMin int64             `json:"recv_min,omitempty"`
	ReceivedMax int64             `json:"recv_max,omitempty"`
	Want        map[string]uint64 `json:"want,omitempty"`
	Hash        string            `json:"hash"`
	Attempt     int               `json:"attempt,omitempty"`
	Schema      int               `json:"schema,omitempty"`
	Dead        string            `json:"dead,omitempty"`
}

// The fields of both that this version knows.
var (
	positionFields = []string{"epoch", "committed", "committed_at", "owner", "intent"}
	intentFields   = []string{"from", "to", "recv_min", "recv_max", "want", "hash", "attempt", "schema", "dead"}
)

func (p *Position) encode() ([]byte, error) {
	known := positionJSON{Epoch: p.Epoch, Committed: p.Committed, Owner: p.owner}
	if !p.CommittedAt.IsZero() {
		known.CommittedAt = p.CommittedAt.UnixNano()
	}
	if in := p.Intent; in != nil {
		var err error
		if known.Intent, err = overlay(in.rest, in.json()); err != nil {
			return nil, fmt.Errorf("ledger entry: %w", err)
		}
	}
	value, err := overlay(p.rest, known)
	if err != nil {
		return nil, fmt.Errorf("ledger entry: %w", err)
	}
	return value, nil
}

func (in *Intent) json() intentJSON {
	return intentJSON{in.From, in.To, in.ReceivedMin, in.ReceivedMax, in.Want, in.Hash, in.Attempt, in.Schema, in.Dead}
}

func decodePosition(value []byte, revision uint64) (Position, error) {
	var known positionJSON
	rest, err := split(value, &known, positionFields...)
	if err != nil {
		return Position{}, fmt.Errorf("ledger entry: %w", err)
	}
	p := Position{Epoch: known.Epoch, Committed: known.Committed, owner: known.Owner, revision: revision, rest: rest}
	if known.CommittedAt != 0 {
		p.CommittedAt = time.Unix(0, known.CommittedAt)
	}
	if len(known.Intent) == 0 || string(known.Intent) == "null" {
		return p, nil
	}
	p.Intent, err = decodeIntent(known.Intent)
	return p, err
}

func decodeIntent(text []byte) (*Intent, error) {
	var in intentJSON
	rest, err := split(text, &in, intentFields...)
	if err != nil {
		return nil, fmt.Errorf("intent of ledger entry: %w", err)
	}
	return &Intent{in.From, in.To, in.ReceivedMin, in.ReceivedMax, in.Want, in.Hash, max(in.Attempt, 1), in.Schema, in.Dead, rest}, nil
}

// overlay is one object of the known fields and the rest.
func overlay(rest fields, known any) (json.RawMessage, error) {
	text, err := json.Marshal(known)
	if err != nil {
		return nil, err
	}
	object := maps.Clone(rest)
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// split decodes the known fields of an object and returns the rest.
func split(text []byte, known any, names ...string) (fields, error) {
	if err := json.Unmarshal(text, known); err != nil {
		return nil, err
	}
	var rest fields
	if err := json.Unmarshal(text, &rest); err != nil {
		return nil, err
	}
	for _, name := range names {
		delete(rest, name)
	}
	return rest, nil
}
