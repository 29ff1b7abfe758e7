package record

// MaxSeverityBytes is the length of the longest word that SeverityNumber knows.
const MaxSeverityBytes = len("informational")

// SeverityNumber returns OpenTelemetry's severity number, 1 to 24, of a
// severity word in any case, and 0 for any other text. It does not accept
// digits, because the meaning of 3 depends on the sender.
func SeverityNumber(word string) uint8 {
	var lower [MaxSeverityBytes]byte
	if len(word) > len(lower) {
		return 0
	}
	for i := range len(word) {
		c := word[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	switch string(lower[:len(word)]) {
	case "trace", "trce", "finest", "verbose", "vrb":
		return 1
	case "debug", "dbg", "fine", "d":
		return 5
	case "info", "information", "informational", "inf", "i":
		return 9
	case "notice":
		return 10
	case "warn", "warning", "wrn", "w":
		return 13
	case "error", "err", "severe", "e":
		return 17
	case "critical", "crit", "dpanic":
		return 18
	case "alert", "panic":
		return 19
	case "fatal", "ftl", "emerg", "emergency", "f":
		return 21
	}
	return 0
}

// SeverityLevels returns the names of OpenTelemetry's six ranges of severity
// numbers, the most severe first.
func SeverityLevels() []string {
	return []string{"fatal", "error", "warn", "info", "debug", "trace"}
}

// SeverityLevel returns the one of SeverityLevels that a severity number lies
// in, and "unknown" for a number outside 1 to 24.
func SeverityLevel(number uint8) string {
	if number == 0 || number > 24 {
		return "unknown"
	}
	return [...]string{"trace", "debug", "info", "warn", "error", "fatal"}[(number-1)/4]
}
