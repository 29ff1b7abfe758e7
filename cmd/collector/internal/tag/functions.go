package tag

import (
	"bytes"
	"encoding/json"
	"strings"
	"text/template"
	"unicode"
)

// functions are the ones that Docker's tag templates have.
func functions() template.FuncMap {
	return template.FuncMap{
		"json":     asJSON,
		"split":    strings.Split,
		"join":     strings.Join,
		"title":    title,
		"lower":    strings.ToLower,
		"upper":    strings.ToUpper,
		"pad":      pad,
		"truncate": truncate,
	}
}

func asJSON(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSpace(out.String()), err
}

// title makes the first letter of each word a capital.
func title(text string) string {
	before := ' '
	return strings.Map(func(r rune) rune {
		inside := unicode.IsLetter(before) || unicode.IsDigit(before) || before == '_' || before == '\''
		before = r
		if inside {
			return r
		}
		return unicode.ToTitle(r)
	}, text)
}

// pad puts blanks around a text that is not empty.
func pad(text string, before, after int) (string, error) {
	if text == "" {
		return "", nil
	}
	if before < 0 || after < 0 || before > maxTag || after > maxTag {
		return "", errLong
	}
	return strings.Repeat(" ", before) + text + strings.Repeat(" ", after), nil
}

func truncate(text string, length int) string {
	return text[:max(0, min(length, len(text)))]
}
