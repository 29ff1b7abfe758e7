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

// request is what the URL and the headers of a statement say.
type request struct {
	query    string // the statement, or its beginning, from the URL
	database string
	format   string // for a result whose statement names none
	id       string
	revision uint64 // of Native results
	framed   bool   // compress=1: the result in ClickHouse's own compressed frames
	unframe  bool   // decompress=1: the body comes in them
	waitEnd  bool   // wait_end_of_query=1: no result before its end is known
	codec    string // Content-Encoding of the result
	settings map[string]string
	params   []chdb.Param
	mark     string // unique, by which a running statement is found and killed
}

// parse reads the request. What ClickHouse takes for an option of its HTTP
// interface is one here, everything else is a setting for the engine to judge.
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
	if truthy(req.settings["enable_http_compression"]) && !req.framed {
		req.codec = acceptedCodec(r.Header.Get("Accept-Encoding"))
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
		return raise(codeNotImplemented, "NOT_IMPLEMENTED", "the embedded engine keeps no sessions: send settings with each statement instead of %s", key)
	case "user", "password", "quota_key", "buffer_size", "stacktrace":
		// Credentials are checked already; the others change nothing here.
	default:
		return req.settingOrParam(key, value)
	}
	return nil
}

// settingName keeps the SET statement free of anything but names.
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

// preamble is what a fresh connection runs before the statement.
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

// quote makes a literal or an identifier of a text.
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
