package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// Position is how far a reader has come. It is valid until the reader's key is
// written: each operation needs the Position that the one before returned.
type Position struct {
	Epoch     uint64 // counts the take-overs
	Committed uint64 // the last sequence that is stored or dead-lettered
	// CommittedAt is when the queue stored the message Committed, or zero. It
	// distinguishes the stream from a later one with the same sequences.
	CommittedAt time.Time
	Intent      *Intent
	owner       string    // of this take-over, so that two owners never write the same entry
	revision    uint64    // of the key
	written     time.Time // when the key was written
	unknown     fields    // of newer versions
}

// Intent announces what is about to be inserted: the messages From..To, with
// what they become. Nothing may be inserted without an intent that covers it,
// and an intent is finished before anything else is inserted.
type Intent struct {
	From, To uint64
	// ReceivedMin and ReceivedMax are when the queue stored the oldest and the
	// newest of the messages, in Unix nanoseconds. A query for their rows reads
	// only the partitions in between.
	ReceivedMin, ReceivedMax int64
	Want                     map[string]uint64 // number of rows by partition
	Hash                     string            // of the messages' bytes
	Attempt                  int               // counts the tokens under which the rows were sent, from 1
	Schema                   int               // version of the rules by which messages become rows
	Dead                     string            // why the messages become dead letters; empty: they become rows
	unknown                  fields            // of newer versions
}

// fields are the parts of a JSON object that this version does not know. They
// are written back unchanged, so that an older process keeps what a newer one
// wrote.
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

func (p *Position) encode() (json.RawMessage, error) {
	known := positionJSON{Epoch: p.Epoch, Committed: p.Committed, Owner: p.owner}
	if !p.CommittedAt.IsZero() {
		known.CommittedAt = p.CommittedAt.UnixNano()
	}
	if in := p.Intent; in != nil {
		object := intentJSON{in.From, in.To, in.ReceivedMin, in.ReceivedMax, in.Want, in.Hash, in.Attempt, in.Schema, in.Dead}
		var err error
		if known.Intent, err = join(in.unknown, object); err != nil {
			return nil, fmt.Errorf("encode intent: %w", err)
		}
	}
	value, err := join(p.unknown, known)
	if err != nil {
		return nil, fmt.Errorf("encode position: %w", err)
	}
	return value, nil
}

func decodePosition(value []byte, revision uint64) (Position, error) {
	var known positionJSON
	unknown, err := split(value, &known, positionFields)
	if err != nil {
		return Position{}, fmt.Errorf("decode position: %w", err)
	}
	p := Position{Epoch: known.Epoch, Committed: known.Committed, owner: known.Owner, revision: revision, unknown: unknown}
	if known.CommittedAt != 0 {
		p.CommittedAt = time.Unix(0, known.CommittedAt)
	}
	if len(known.Intent) == 0 || string(known.Intent) == "null" {
		return p, nil
	}
	var in intentJSON
	if unknown, err = split(known.Intent, &in, intentFields); err != nil {
		return Position{}, fmt.Errorf("decode intent: %w", err)
	}
	p.Intent = &Intent{in.From, in.To, in.ReceivedMin, in.ReceivedMax, in.Want, in.Hash, max(in.Attempt, 1), in.Schema, in.Dead, unknown}
	return p, nil
}

// join returns one object of the known and the unknown fields.
func join(unknown fields, known any) (json.RawMessage, error) {
	text, err := json.Marshal(known)
	if err != nil {
		return nil, err
	}
	object := maps.Clone(unknown)
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// split decodes the named fields of an object into known and returns the others.
func split(text []byte, known any, names []string) (fields, error) {
	if err := json.Unmarshal(text, known); err != nil {
		return nil, err
	}
	var unknown fields
	if err := json.Unmarshal(text, &unknown); err != nil {
		return nil, err
	}
	for _, name := range names {
		delete(unknown, name)
	}
	return unknown, nil
}
