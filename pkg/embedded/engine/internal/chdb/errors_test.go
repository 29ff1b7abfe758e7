package chdb

import "testing"

func TestCodeIsParsedFromTheEnginesError(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]int{
		"Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE)\n": 60,
		"Error: Code: 241. DB::Exception: Memory limit":             241,
		"Code: many. DB::Exception":                                 0,
		"no code at all":                                            0,
	} {
		if e := parseError(text); e.Code != code {
			t.Errorf("%q: code %d, want %d", text, e.Code, code)
		}
	}
}
