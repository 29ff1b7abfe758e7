// Package web is the pages for people: HTML made on the server, one stylesheet
// and a little script, all embedded.
//
// It sits in front of the same record and tables as the JSON API, and does
// nothing that the API cannot do. A page is added in four steps:
//
//  1. templates/name.html defines "main" (and "main-class" where the page is
//     not an ordinary, 1200 pixel wide one). It is parsed with layout.html and
//     parts.html, whose templates it may use.
//  2. A handler, func(*request) error in a file of its own, reads what it needs
//     and ends in r.render("name", view{…}), r.goTo(address) or an error. In
//     r.person is who asks, in r.project the project that they may see.
//  3. The handler is named in routes.go with the role that it asks for; the
//     table is dumped in a test. A route without a role is closed.
//  4. Script goes to assets/name.js, a module that the template's "script" names
//     ({{define "script"}}<script type="module" src="{{asset "name.js"}}"></script>{{end}}),
//     and that imports its neighbours as "./dialog.js". Styles go to a
//     stylesheet of its own, named in "style", once they are more than a few.
//
// What a newcomer would get wrong: the Content-Security-Policy allows nothing
// inline. No style attribute, no script element with content, no on… attribute:
// a bar's width is an SVG attribute, and data for a script is a data attribute.
// Scripts make text with textContent and never parse HTML.
package web
