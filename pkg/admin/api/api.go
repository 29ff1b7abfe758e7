// Package api is the JSON API of the admin service, under /api/v1. Its handlers
// only translate: they read a request, call pkg/admin and write the answer.
//
// What a newcomer would get wrong: a route exists only in the route table,
// which names its operation, and openapi.json is made from that table and from
// the Go types of the answers.
package api

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

// apiRoot is where the JSON API begins.
const apiRoot = "/api/v1"

// API answers the routes of the JSON API.
type API struct {
	logger      *slog.Logger
	service     *admin.Service
	person      func(*http.Request) (admin.Caller, error)
	description openAPI
}

// New returns the API. The pages use it too: person returns the caller whose
// session a request carries, or an error.
func New(logger *slog.Logger, service *admin.Service, person func(*http.Request) (admin.Caller, error)) *API {
	a := &API{logger: logger, service: service, person: person}
	a.description = describe(a.routes())
	return a
}

// Mount adds the routes. Every path below apiRoot needs an API key or a
// session, even one that is no route, except for what anyone may use.
func (a *API) Mount(e *echo.Echo) {
	open := map[string]bool{}
	for _, r := range a.routes() {
		open[apiRoot+r.path] = r.access() == admin.Anyone
		e.Add(r.method, apiRoot+r.path, a.authorized(r))
	}
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		private := a.authenticated(next)
		return func(c echo.Context) error {
			if open[c.Path()] || !strings.HasPrefix(c.Request().URL.Path, apiRoot+"/") {
				return next(c)
			}
			c.Response().Header().Set("Cache-Control", "no-store")
			c.Response().Header().Set("X-Content-Type-Options", "nosniff")
			return private(c)
		}
	})
}

// request is a request whose caller may do the operation of its route.
type request struct {
	echo.Context
	caller  admin.Caller
	project project.Project // of routes with :project, else zero
}

const callerOfRequest = "caller" // in the echo context

var errMissingKey = errors.New("no Authorization: Bearer API key in the request")

// authenticated lets only requests with a valid API key pass, and requests
// without a key that carry a session.
func (a *API) authenticated(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		caller, err := a.caller(c.Request())
		if err != nil {
			return err
		}
		caller.RequestID, caller.Address = telemetry.RequestID(c), c.RealIP()
		c.Set(callerOfRequest, caller)
		return next(c)
	}
}

func (a *API) caller(r *http.Request) (admin.Caller, error) {
	header := strings.TrimSpace(r.Header.Get(echo.HeaderAuthorization))
	if header == "" {
		caller, err := a.person(r)
		if err != nil {
			return admin.Caller{}, errMissingKey
		}
		return caller, nil
	}
	scheme, value, found := strings.Cut(header, " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return admin.Caller{}, errMissingKey
	}
	return a.service.KeyCaller(r.Context(), strings.TrimSpace(value))
}

// authorized returns the route's handler for callers that may do its operation.
func (a *API) authorized(r route) echo.HandlerFunc {
	return func(c echo.Context) error {
		in := &request{Context: c}
		in.caller, _ = c.Get(callerOfRequest).(admin.Caller) // the zero value on routes for anyone
		var err error
		if in.project, err = a.service.Authorize(c.Request().Context(), in.caller, r.operation, c.Param("project")); err != nil {
			return err
		}
		return r.handle(in)
	}
}
