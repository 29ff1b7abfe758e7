package project

import (
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// Settings are what an operator may change about a project. A document of the
// record from before a setting was there reads as the setting's default.
type Settings struct {
	// RetentionDays is how long what was sent is kept, 1 to 3650.
	RetentionDays uint16 `json:"retention_days"`

	// The quotas: records a second, records a day, bytes a calendar month. Nil
	// means the installation's default (see StoreConfig.Defaults), 0 unlimited.
	Rate         *int64 `json:"rate"`
	DailyRecords *int64 `json:"daily_records"`
	MonthlyBytes *int64 `json:"monthly_bytes"`

	// OnQuota is what container logs beyond a quota meet: OnQuotaDrop (the
	// default, also where it is empty) or OnQuotaRefuse.
	OnQuota string `json:"on_quota"`

	// StderrAs is the severity, such as "error", of lines of a container's
	// stderr that name none. Empty, the default, leaves them without.
	StderrAs string `json:"stderr_as"`
}

// What OnQuota may be.
const (
	OnQuotaDrop   = "drop"   // answered like the others, dropped and counted
	OnQuotaRefuse = "refuse" // refused, to be sent again
)

const maxRetentionDays = 3650

// Validate names the first setting that is out of range, and spells the others
// as they are kept: defaults filled in, severities in lower case.
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

// fill spells the settings as Validate leaves them, whatever a document says.
// The words are the program's own and not the document's, so that a hundred
// thousand remembered tokens do not each keep a copy.
func (s *Settings) fill() {
	if s.OnQuota == OnQuotaRefuse {
		s.OnQuota = OnQuotaRefuse
	} else {
		s.OnQuota = OnQuotaDrop
	}
	s.StderrAs = strings.ToLower(s.StderrAs)
}

// Quotas are limits with nothing left open: 0 means unlimited.
type Quotas struct {
	Rate         int64 // records a second
	DailyRecords int64
	MonthlyBytes int64
}

// Quotas resolves the settings' quotas against the installation's defaults.
func (s *Settings) Quotas(defaults Quotas) Quotas {
	return Quotas{
		Rate:         valueOr(s.Rate, defaults.Rate),
		DailyRecords: valueOr(s.DailyRecords, defaults.DailyRecords),
		MonthlyBytes: valueOr(s.MonthlyBytes, defaults.MonthlyBytes),
	}
}

func valueOr(value *int64, otherwise int64) int64 {
	if value == nil {
		return otherwise
	}
	return *value
}

// The bounds of quotas. What lies beyond is better said by 0; the larger one is
// the last whole number that every JSON reader and Lua script keeps exactly.
const (
	maxRate  = 1_000_000_000
	maxQuota = 1<<53 - 1
)

// check names the first quota that is out of range, after the prefix.
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

// checkSeverity refuses what is neither empty nor a severity.
func checkSeverity(field, text string) error {
	if text != "" && record.SeverityNumber(text) == 0 {
		return &InvalidError{field, "must be empty or a severity such as debug, info, warn, error or fatal"}
	}
	return nil
}
