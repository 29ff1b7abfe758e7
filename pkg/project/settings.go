package project

import (
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// Settings are what an operator may change about a project. A setting that is
// missing in a stored document, because the document is older, has its default.
type Settings struct {
	// RetentionDays is how long records are kept, 1 to 3650.
	RetentionDays uint16 `json:"retention_days"`

	// The quotas: records a second, records a day, bytes a calendar month. Nil
	// means the installation's default (see Config.Defaults), 0 unlimited.
	Rate         *int64 `json:"rate"`
	DailyRecords *int64 `json:"daily_records"`
	MonthlyBytes *int64 `json:"monthly_bytes"`

	// OnQuota says what happens to container logs beyond a quota: OnQuotaDrop
	// (the default, also if it is empty) or OnQuotaRefuse.
	OnQuota string `json:"on_quota"`

	// StderrAs is the severity, such as "error", of those lines of a container's
	// stderr that name none. If it is empty, the default, they have none.
	StderrAs string `json:"stderr_as"`
}

// The values of OnQuota.
const (
	OnQuotaDrop   = "drop"   // accept the request, drop the records and count them
	OnQuotaRefuse = "refuse" // refuse the request, so that the client sends it again
)

const maxRetentionDays = 3650

// Validate names the first setting that is out of range. It fills in defaults
// and puts severities in lower case.
func (s *Settings) Validate() error {
	if s.RetentionDays < 1 || s.RetentionDays > maxRetentionDays {
		return &InvalidError{"retention_days", "must be 1 to 3650"}
	}
	quotas := s.Quotas(Quotas{})
	if err := quotas.check(""); err != nil {
		return err
	}
	if s.OnQuota != "" && s.OnQuota != OnQuotaDrop && s.OnQuota != OnQuotaRefuse {
		return &InvalidError{"on_quota", "must be drop or refuse"}
	}
	if err := checkSeverity("stderr_as", s.StderrAs); err != nil {
		return err
	}
	s.fill()
	return nil
}

// fill fills in the defaults of settings that an older document lacks. It
// replaces the document's words by constants, so that 100,000 cached tokens do
// not each hold a copy.
func (s *Settings) fill() {
	if s.OnQuota == OnQuotaRefuse {
		s.OnQuota = OnQuotaRefuse
	} else {
		s.OnQuota = OnQuotaDrop
	}
	s.StderrAs = strings.ToLower(s.StderrAs)
}

// Quotas are a project's limits; 0 means unlimited.
type Quotas struct {
	Rate         int64 // records a second
	DailyRecords int64
	MonthlyBytes int64
}

// Quotas returns the settings' quotas, with defaults for those that are nil.
func (s *Settings) Quotas(defaults Quotas) Quotas {
	return Quotas{
		Rate:         valueOr(s.Rate, defaults.Rate),
		DailyRecords: valueOr(s.DailyRecords, defaults.DailyRecords),
		MonthlyBytes: valueOr(s.MonthlyBytes, defaults.MonthlyBytes),
	}
}

func valueOr(value *int64, fallback int64) int64 {
	if value == nil {
		return fallback
	}
	return *value
}

// The bounds of quotas. Above them, 0 (unlimited) says the same. maxQuota is the
// largest integer that every JSON reader and Lua script represents exactly.
const (
	maxRate  = 1_000_000_000
	maxQuota = 1<<53 - 1
)

// check names the first quota that is out of range. Its name begins with prefix.
func (q *Quotas) check(prefix string) error {
	switch {
	case q.Rate < 0 || q.Rate > maxRate:
		return &InvalidError{prefix + "rate", "must be 0 (unlimited) to 1000000000 records a second"}
	case q.DailyRecords < 0 || q.DailyRecords > maxQuota:
		return &InvalidError{prefix + "daily_records", "must be 0 (unlimited) to 9007199254740991"}
	case q.MonthlyBytes < 0 || q.MonthlyBytes > maxQuota:
		return &InvalidError{prefix + "monthly_bytes", "must be 0 (unlimited) to 9007199254740991"}
	}
	return nil
}

// checkSeverity returns an InvalidError unless text is empty or a severity.
func checkSeverity(field, text string) error {
	if text != "" && record.SeverityNumber(text) == 0 {
		return &InvalidError{field, "must be empty or a severity such as debug, info, warn, error or fatal"}
	}
	return nil
}
