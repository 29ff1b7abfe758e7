package statement_test

import (
	"testing"

	"github.com/logboom/logboom/pkg/embedded/engine/internal/statement"
)

func TestInsertIsSplitBeforeItsRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, head, format, data string }{
		{"INSERT INTO t FORMAT Native\n\x01\x02", "INSERT INTO t ", "Native", "\x01\x02"},
		{"insert into t (a, b) format CSV\n\n1,2", "insert into t (a, b) ", "CSV", "\n1,2"},
		{"INSERT INTO t VALUES (1)", "INSERT INTO t ", "Values", " (1)"},
		{"INSERT INTO values VALUES(1)", "INSERT INTO values ", "Values", "(1)"},
		{"INSERT INTO db.`format` (`values`) FORMAT TSV \r\n x", "INSERT INTO db.`format` (`values`) ", "TSV", " x"},
		{"INSERT INTO TABLE FUNCTION null('a UInt8 -- ; VALUES') FORMAT TSV\n1", "INSERT INTO TABLE FUNCTION null('a UInt8 -- ; VALUES') ", "TSV", "1"},
		{"INSERT INTO t SETTINGS async_insert=0, x = 'FORMAT' FORMAT TSV\n1", "INSERT INTO t SETTINGS async_insert=0, x = 'FORMAT' ", "TSV", "1"},
		{"INSERT INTO t FORMAT TSV SETTINGS a=1, b=-2\n1", "INSERT INTO t  SETTINGS a=1, b=-2", "TSV", "1"},
		{"/* FORMAT x */ INSERT -- VALUES\n INTO t FORMAT `TSV`\n1", "/* FORMAT x */ INSERT -- VALUES\n INTO t ", "TSV", "1"},
	} {
		insert, ok := statement.ParseInsert(c.text)
		if !ok {
			t.Errorf("%q: not recognized as an insert", c.text)
			continue
		}
		if insert.Head != c.head || insert.Format != c.format || c.text[insert.Data:] != c.data {
			t.Errorf("%q: head %q, format %q, data %q", c.text, insert.Head, insert.Format, c.text[insert.Data:])
		}
	}
}

func TestStatementWithoutRowsIsNotAnInsert(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "SELECT 1 FORMAT CSV", "INSERT", "INSERT INTO t", "INSERT INTO t SELECT 1",
		"INSERT INTO t (a) SELECT 1 FORMAT CSV", "INSERT INTO t (SELECT 1)", "INSERT INTO t WITH 1 AS x SELECT x",
		"INSERT INTO t FORMAT", "INSERT INTO t FROM INFILE 'x' FORMAT CSV",
	} {
		if insert, ok := statement.ParseInsert(text); ok {
			t.Errorf("%q: parsed as an insert: %+v", text, insert)
		}
	}
}

func TestOutputFormatIsReadFromTheLastClause(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SELECT 1":              "",
		"SELECT 1 FORMAT JSON":  "JSON",
		"SELECT 1 format JSON;": "JSON",
		"SELECT 1 FORMAT JSON SETTINGS a = 1, b='x'": "JSON",
		"SELECT 1 SETTINGS a = 1 FORMAT JSON -- CSV": "JSON",
		"SELECT 'x FORMAT CSV'":                      "",
		"SELECT * FROM (SELECT 1 FORMAT CSV)":        "",
		"SELECT format FROM t":                       "",
		"SELECT a AS format, b FROM t WHERE (x)":     "",
		"SELECT $$ FORMAT CSV":                       "",
		"SELECT $a$ FORMAT CSV $a$ FORMAT TSV":       "TSV",
	} {
		if got := statement.OutputFormat(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestOnlySelectsReturnRows(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"SELECT 1": true, " -- x\n(select 1)": true, "WITH 1 AS a SELECT a": true,
		"SHOW TABLES": false, "DESCRIBE t": false, "": false, "INSERT INTO t SELECT 1": false,
	} {
		if got := statement.ReturnsRows(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestStatementsThatUseFilesAreDetected(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"SELECT 1 INTO OUTFILE 'x'":                    true,
		"(SELECT 1) into /* */ outfile 'x' FORMAT CSV": true,
		"INSERT INTO t FROM INFILE 'x' FORMAT CSV":     true,
		"SELECT * FROM infile":                         false,
		"INSERT INTO outfile VALUES (1)":               false,
		"SELECT 'INTO OUTFILE ''x'''":                  false,
	} {
		if got := statement.TouchesFiles(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add("INSERT INTO t FORMAT TSV SETTINGS a=1\n1")
	f.Add("SELECT $a$ x $a$ FORMAT `CSV` /*")
	f.Fuzz(func(t *testing.T, text string) {
		statement.OutputFormat(text)
		statement.ReturnsRows(text)
		statement.TouchesFiles(text)
		if insert, ok := statement.ParseInsert(text); ok && (insert.Data < 0 || insert.Data > len(text) || insert.Format == "") {
			t.Fatalf("%q: %+v", text, insert)
		}
	})
}
