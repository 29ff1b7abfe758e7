package project

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
)

// Identity is whose a token is, and what ingest needs to know of the project
// for each request.
type Identity struct {
	ProjectID     string
	ProjectName   string
	TokenID       string
	TokenName     string
	RetentionDays uint16
	OnQuota       string // OnQuotaDrop or OnQuotaRefuse
	StderrAs      string // a severity word in lower case, or empty
	Quotas        Quotas // with the installation's defaults filled in
}

// holding is what the record says of a token. It is what processes share, and
// not the Identity: which defaults fill the settings' gaps is each process's
// own affair, so that a change of them counts from a process's start on.
type holding struct {
	ProjectID   string   `json:"project_id"`
	ProjectName string   `json:"project"`
	TokenID     string   `json:"token_id"`
	TokenName   string   `json:"token"`
	Settings    Settings `json:"settings"`
}

func (h *holding) identity(defaults Quotas) Identity {
	h.Settings.fill()
	return Identity{
		ProjectID:     h.ProjectID,
		ProjectName:   h.ProjectName,
		TokenID:       h.TokenID,
		TokenName:     h.TokenName,
		RetentionDays: h.Settings.RetentionDays,
		OnQuota:       h.Settings.OnQuota,
		StderrAs:      h.Settings.StderrAs,
		Quotas:        h.Settings.Quotas(defaults),
	}
}

// Identify finds out whose token it is that has the digest, from the record
// itself. ErrUnknownToken where it is nobody's, or no longer.
func (s *Store) Identify(ctx context.Context, d Digest) (Identity, error) {
	h, err := s.holding(ctx, d)
	if err != nil {
		return Identity{}, err
	}
	return h.identity(s.defaults), nil
}

func (s *Store) holding(ctx context.Context, d Digest) (holding, error) {
	var t tokenDocument
	_, err := s.projects.read(ctx, tokenKey(d.ID()), &t)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return holding{}, err
	}
	if !sameDigest(t.Hash, d) { // also where there is none, with an empty hash
		return holding{}, ErrUnknownToken
	}
	p, _, err := s.project(ctx, t.Project)
	if errors.Is(err, ErrNotFound) || err == nil && p.ID != t.ProjectID {
		return holding{}, ErrUnknownToken
	}
	if err != nil {
		return holding{}, err
	}
	return holding{p.ID, p.Name, t.ID, t.Name, p.Settings}, nil
}

// sameDigest compares in constant time, and as long for a missing hash.
func sameDigest(hash string, d Digest) bool {
	var stored Digest
	n, err := hex.Decode(stored[:], []byte(hash[:min(len(hash), 2*len(stored))]))
	same := subtle.ConstantTimeCompare(stored[:], d[:]) == 1
	return same && err == nil && n == len(stored)
}
