package api

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/token"
)

// nameBody is the body that creates something with a name.
type nameBody struct {
	Name string `json:"name"`
}

func readName(r *request) (string, error) {
	var wanted nameBody
	sent, err := readBody[nameBody](r, "name")
	if err != nil {
		return "", err
	}
	err = sent.into(&wanted)
	return wanted.Name, err
}

// projectPage is one page of projects, by name.
type projectPage struct {
	Projects []project.Project `json:"projects"`
	Next     string            `json:"next"` // cursor of the next page, "" on the last
}

func (a *API) createProject(r *request) error {
	name, err := readName(r)
	if err != nil {
		return err
	}
	created, err := a.service.CreateProject(r.Request().Context(), r.caller, name)
	if err != nil {
		return err
	}
	r.Response().Header().Set("Location", apiRoot+"/projects/"+url.PathEscape(created.Name))
	return r.JSON(http.StatusCreated, created)
}

// listProjects answers the projects that the caller may see. The cursor is the
// last name of the previous page.
func (a *API) listProjects(r *request) error {
	limit, err := readLimit(r)
	if err != nil {
		return err
	}
	after := r.QueryParam("cursor")
	if after != "" && project.CheckName(after) != nil {
		return errCursor
	}
	list, err := a.service.Projects(r.Request().Context(), r.caller, "", after, limit+1)
	if err != nil {
		return err
	}
	page := projectPage{Projects: list}
	if len(list) > limit { // another page follows
		page.Projects = list[:limit]
		page.Next = list[limit-1].Name
	}
	return r.JSON(http.StatusOK, page)
}

func (a *API) showProject(r *request) error { return r.JSON(http.StatusOK, r.project) }

func (a *API) deleteProject(r *request) error {
	if err := a.service.DeleteProject(r.Request().Context(), r.caller, r.project); err != nil {
		return err
	}
	return r.NoContent(http.StatusNoContent)
}

func (a *API) settings(r *request) error { return r.JSON(http.StatusOK, r.project.Settings) }

// changeSettings sets the settings that are given. The others keep their value,
// even if another client changes them at the same time.
func (a *API) changeSettings(r *request) error {
	sent, err := readBody[project.Settings](r)
	if err != nil {
		return err
	}
	if err := sent.into(&project.Settings{}); err != nil {
		return err
	}
	changed, err := a.service.ChangeSettings(r.Request().Context(), r.caller, r.project, func(settings *project.Settings) {
		_ = sent.into(settings) // the types were checked above
	})
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, changed)
}

// tokenAnswer is what is shown of a token.
type tokenAnswer struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Last4    string     `json:"last4"`
	Created  time.Time  `json:"created"`
	LastUsed *time.Time `json:"last_used"` // accurate to a few minutes; null: unknown
}

// newToken is the one answer that shows a token's value.
type newToken struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Token string `json:"token"`
	Last4 string `json:"last4"`
}

// tokenPage is one page of tokens, the oldest first.
type tokenPage struct {
	Tokens []tokenAnswer `json:"tokens"`
	Next   string        `json:"next"` // cursor of the next page, "" on the last
}

func (a *API) createToken(r *request) error {
	label, err := readName(r)
	if err != nil {
		return err
	}
	created, value, err := a.service.CreateToken(r.Request().Context(), r.caller, r.project, label)
	if err != nil {
		return err
	}
	return r.JSON(http.StatusCreated, newToken{ID: created.ID, Name: created.Name, Token: value.Reveal(), Last4: created.Last4})
}

func (a *API) listTokens(r *request) error {
	limit, err := readLimit(r)
	if err != nil {
		return err
	}
	after, err := parseTokenCursor(r.QueryParam("cursor"))
	if err != nil {
		return err
	}
	list, err := a.service.Tokens(r.Request().Context(), r.project)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(t token.Token) bool { return after.compare(cursorOf(t)) >= 0 })
	page := tokenPage{Tokens: []tokenAnswer{}}
	if len(list) > limit {
		list = list[:limit]
		page.Next = cursorOf(list[limit-1]).String()
	}
	for _, t := range list {
		shown := tokenAnswer{ID: t.ID, Name: t.Name, Last4: t.Last4, Created: t.Created}
		if !t.LastUsed.IsZero() {
			shown.LastUsed = &t.LastUsed
		}
		page.Tokens = append(page.Tokens, shown)
	}
	return r.JSON(http.StatusOK, page)
}

func (a *API) deleteToken(r *request) error {
	if err := a.service.DeleteToken(r.Request().Context(), r.caller, r.project, r.Param("token")); err != nil {
		return err
	}
	return r.NoContent(http.StatusNoContent)
}

// tokenCursor is the position of a token in its project's list, whether or not
// the token still exists.
type tokenCursor struct {
	created int64 // nanoseconds since 1970
	id      string
}

func cursorOf(t token.Token) tokenCursor { return tokenCursor{t.Created.UnixNano(), t.ID} }

func (c tokenCursor) compare(d tokenCursor) int {
	return cmp.Or(cmp.Compare(c.created, d.created), cmp.Compare(c.id, d.id))
}

func (c tokenCursor) String() string { return strconv.FormatInt(c.created, 36) + "-" + c.id }

// parseTokenCursor is the inverse of String; "" is before all tokens.
func parseTokenCursor(text string) (tokenCursor, error) {
	if text == "" {
		return tokenCursor{}, nil
	}
	first, id, found := strings.Cut(text, "-")
	created, err := strconv.ParseInt(first, 36, 64)
	if _, malformed := secret.ParseID(id); !found || err != nil || malformed != nil {
		return tokenCursor{}, errCursor
	}
	return tokenCursor{created, id}, nil
}
