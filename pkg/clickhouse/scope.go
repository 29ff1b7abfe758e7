package clickhouse

import (
	"context"
	"math"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/query"
)

// scope is what a read may look at: the rows of one project, of some time, that
// a filter lets pass.
type scope struct {
	project     string
	first, last int64 // timestamps, both included
	filter      query.Query
}

// newScope makes the scope of from (included) to to (not); zero times do not
// bound.
func newScope(project string, from, to time.Time, filter query.Query) scope {
	s := scope{project, nanoseconds(from, math.MinInt64), math.MaxInt64, filter}
	if !to.IsZero() {
		s.last = nanoseconds(to, 0) - 1
	}
	return s
}

// filterMark stands in the statements where the filter goes.
const filterMark = "1 /* filter */"

// read runs an embedded statement over a scope. It is the one place where
// stored records are read for people, so the one that binds their project;
// every statement for it names the four parts of the scope.
func (c *Client) read(ctx context.Context, name string, s scope, more []any, take func(driver.Rows) (bool, error)) error {
	sql := filtered(statement(name), s.filter.Compile())
	if err := c.each(ctx, sql, append(namedScope(s), more...), take); err != nil {
		return readError(name, err)
	}
	return nil
}

// namedScope binds a scope.
func namedScope(s scope) []any {
	arguments := []any{
		ch.Named("project", s.project),
		ch.Named("first", s.first),
		ch.Named("last", s.last),
	}
	for _, argument := range s.filter.Compile().Arguments {
		arguments = append(arguments, ch.Named(argument.Name, argument.Value))
	}
	return arguments
}

// filtered puts the filter into a statement: constants of package query, whose
// parameters namedScope binds.
func filtered(sql string, condition query.Condition) string {
	return strings.ReplaceAll(sql, filterMark, condition.SQL)
}

// Times outside these bounds do not fit into nanoseconds.
var (
	minTime = time.Unix(0, math.MinInt64+1)
	maxTime = time.Unix(0, math.MaxInt64)
)

// nanoseconds is t since 1970, zero where t is unset, the nearest bound where
// it does not fit.
func nanoseconds(t time.Time, unset int64) int64 {
	switch {
	case t.IsZero():
		return unset
	case t.Before(minTime):
		return minTime.UnixNano()
	case t.After(maxTime):
		return maxTime.UnixNano()
	}
	return t.UnixNano()
}
