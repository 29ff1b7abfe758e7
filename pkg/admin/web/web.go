// Package web is the pages of the admin service: HTML made on the server, one
// stylesheet and a little script, all embedded. Its handlers only translate:
// they read a form or an address, call pkg/admin and render a template.
//
// A page is added in four steps:
//
//  1. templates/name.html defines "main", and "main-class" if the page is not
//     an ordinary one, 1200 pixels wide. It is parsed with layout.html and
//     parts.html and may use their templates.
//  2. A handler, func(*request) error in the file of its noun, reads what it
//     needs and ends in r.render("name", view{…}), r.goTo(address) or an error.
//     r.caller is who asks, and r.project the project that they may see.
//  3. routes.go names the handler with its operation. A test dumps the table. A
//     route without an operation is closed.
//  4. Script goes to assets/name.js, a module that the template's "script"
//     names ({{define "script"}}<script type="module" src="{{asset "name.js"}}"></script>{{end}})
//     and that imports other modules as "./dialog.js". More than a few styles
//     go to a stylesheet of their own, named in "style".
//
// What a newcomer would get wrong: the Content-Security-Policy allows nothing
// inline: no style attribute, no script element with content, no on… attribute.
// The width of a bar is an SVG attribute, and data for a script is a data
// attribute. Scripts set textContent. The only HTML that they
// parse is what the templates rendered.
package web

import (
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/people"
)

// Config is for operators.
type Config struct {
	Public    *url.URL // where people reach the pages; nil: taken from the request
	IngestURL string   // where clients reach ingest; "": made of the request's host and IngestPort
	// IngestPort is the port of ingest, as readers of the pages see it.
	IngestPort   string
	QueryTimeout time.Duration // of all of a page's queries to ClickHouse together
}

// Pages answers the routes of the pages.
type Pages struct {
	cfg       Config
	logger    *slog.Logger
	service   *admin.Service
	cookies   people.Cookies
	templates templates
	assets    *assets
	origin    *http.CrossOriginProtection
	now       func() time.Time
}

// New parses the templates and assets; it starts nothing.
func New(cfg Config, logger *slog.Logger, service *admin.Service) (*Pages, error) {
	p := &Pages{
		cfg: cfg, logger: logger, service: service, cookies: people.Cookies{Public: cfg.Public},
		origin: http.NewCrossOriginProtection(), now: time.Now,
	}
	if cfg.Public != nil {
		if err := p.origin.AddTrustedOrigin(cfg.Public.Scheme + "://" + cfg.Public.Host); err != nil {
			return nil, err
		}
	}
	var err error
	if p.assets, err = readAssets(); err != nil {
		return nil, err
	}
	p.templates, err = parseTemplates(p.assets)
	return p, err
}

// Mount adds the routes. A path that is no route is answered with a page too,
// except below /api.
func (p *Pages) Mount(e *echo.Echo) {
	for _, r := range p.routes() {
		e.Add(r.method, r.path, p.authorized(r))
	}
	e.GET(assetRoot+":hash/*", p.serveAsset)
	e.RouteNotFound("/*", p.notFound)
}

// Person returns the caller whose session the request carries. The error is
// people.ErrNoSession without one, and for requests that change something and come
// from another site's page.
func (p *Pages) Person(r *http.Request) (admin.Caller, error) {
	if p.origin.Check(r) != nil {
		return admin.Caller{}, people.ErrNoSession
	}
	return p.service.SessionCaller(r.Context(), p.cookies.Read(r, sessionCookie))
}
