package stream

import (
	"encoding/json"
	"fmt"
	"maps"
)

// fields are the parts of a JSON object that this version does not know. They
// are written back as they were, so that an older process does not take away
// what a newer one keeps in the ledger.
type fields map[string]json.RawMessage

// positionJSON and intentJSON are the ledger's format.
type positionJSON struct {
	Epoch     uint64          `json:"epoch"`
	Committed uint64          `json:"committed"`
	Owner     string          `json:"owner"`
	Intent    json.RawMessage `json:"intent,omitempty"`
}

type intentJSON struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	Hash string `json:"hash"`
}

func (p *Position) encode() ([]byte, error) {
	known := positionJSON{Epoch: p.Epoch, Committed: p.Committed, Owner: p.owner}
	if in := p.Intent; in != nil {
		var err error
		if known.Intent, err = overlay(in.rest, intentJSON{in.From, in.To, in.Hash}); err != nil {
			return nil, fmt.Errorf("ledger entry: %w", err)
		}
	}
	value, err := overlay(p.rest, known)
	if err != nil {
		return nil, fmt.Errorf("ledger entry: %w", err)
	}
	return value, nil
}

func decodePosition(value []byte, revision uint64) (Position, error) {
	var known positionJSON
	rest, err := split(value, &known, "epoch", "committed", "owner", "intent")
	if err != nil {
		return Position{}, fmt.Errorf("ledger entry: %w", err)
	}
	p := Position{Epoch: known.Epoch, Committed: known.Committed, owner: known.Owner, revision: revision, rest: rest}
	if len(known.Intent) == 0 || string(known.Intent) == "null" {
		return p, nil
	}
	var in intentJSON
	if rest, err = split(known.Intent, &in, "from", "to", "hash"); err != nil {
		return Position{}, fmt.Errorf("intent of ledger entry: %w", err)
	}
	p.Intent = &Intent{From: in.From, To: in.To, Hash: in.Hash, rest: rest}
	return p, nil
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
