package front

import (
	"crypto/rand"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/logboom/logboom/pkg/embedded/engine/internal/chdb"
)

// request is the content of a statement's URL and headers.
type request struct {
	query    string // the statement, or its beginning, from the URL
	database string
	format   string // of the result, if the statement names none
	id       string
	revision uint64 // of Native results
	framed   bool   // compress=1: send the result in ClickHouse's compressed frames
	unframe  bool   // decompress=1: the body is in such frames
	waitEnd  bool   // wait_end_of_query=1: send no result before the query has ended
	settings map[string]string
	params   []chdb.Param
	mark     string // unique; identifies the running statement for KILL
}

// parse reads the request. ClickHouse's options of its HTTP interface are read
// here. Everything else is a setting, which the engine checks.
func parse(r *http.Request, query url.Values) (*request, error) {
	req := &request{format: "TabSeparated", settings: map[string]string{}, mark: rand.Text()}
	req.database = r.Header.Get("X-Clickhouse-Database")
	if format := r.Header.Get("X-Clickhouse-Format"); format != "" {
		req.format = format
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		value := query[key][len(query[key])-1]
		if err := req.option(key, value); err != nil {
			return nil, err
		}
	}
	if req.id == "" {
		req.id = uuid.NewString()
	}
	req.settings["log_comment"] = strings.TrimSpace(req.settings["log_comment"] + " " + req.mark)
	return req, nil
}

func (req *request) option(key, value string) error {
	switch key {
	case "query":
		req.query = value
	case "database":
		req.database = value
	case "default_format":
		req.format = value
	case "query_id":
		req.id = value
	case "compress":
		req.framed = truthy(value)
	case "decompress":
		req.unframe = truthy(value)
	case "wait_end_of_query":
		req.waitEnd = truthy(value)
	case "client_protocol_version":
		revision, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return raise(codeBadArguments, "BAD_ARGUMENTS", "client_protocol_version %q is not a number", value)
		}
		req.revision = revision
	case "session_id", "session_check", "session_timeout":
		return raise(codeNotImplemented, "NOT_IMPLEMENTED", "the embedded engine has no sessions: send settings with each statement instead of %s", key)
	case "user", "password", "quota_key", "buffer_size", "stacktrace":
		// Credentials were checked before; the other options have no effect here.
	default:
		return req.settingOrParam(key, value)
	}
	return nil
}

// settingName matches the names that may appear in the SET statement.
var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func (req *request) settingOrParam(key, value string) error {
	if name, ok := strings.CutPrefix(key, "param_"); ok {
		req.params = append(req.params, chdb.Param{Name: name, Value: value})
		return nil
	}
	if !settingName.MatchString(key) {
		return raise(codeUnknownSetting, "UNKNOWN_SETTING", "unknown setting %q", key)
	}
	req.settings[key] = value
	return nil
}

// preamble is the text that a new connection runs before the statement.
func (req *request) preamble() string {
	var b strings.Builder
	if req.database != "" {
		b.WriteString("USE " + quote(req.database, '`') + "; ")
	}
	b.WriteString("SET ")
	for i, name := range slices.Sorted(maps.Keys(req.settings)) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name + " = " + quote(req.settings[name], '\''))
	}
	return b.String()
}

// quote returns s as a literal or an identifier between two marks.
func quote(s string, mark byte) string {
	var b strings.Builder
	b.WriteByte(mark)
	for i := range len(s) {
		if s[i] == mark || s[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	b.WriteByte(mark)
	return b.String()
}

func truthy(value string) bool { return value == "1" || strings.EqualFold(value, "true") }
