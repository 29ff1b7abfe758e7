// Package query is the language in which people look for logs and events:
// words, "text", /expressions/ and field:value terms, joined by AND, OR, NOT
// and parentheses.
//
// It stands between the text that somebody typed and ClickHouse. [Parse] makes
// a tree of the text, [Query.Compile] makes SQL of the tree, and [Query.Match]
// answers the same question about a record in memory. What a newcomer would
// get wrong: nothing of the text may become SQL. The SQL is put together from
// constants of this package (the type fragment), and whatever was typed,
// names of fields too, travels as a bound parameter.
//
// A word is a run of ASCII letters, digits and characters beyond ASCII, which
// is how hasToken and the index of words in the logs table cut a line.
package query
