package admin

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/project"
)

var errNoToken = errors.New("the project has no such token")

// tokenAnswer is what is shown of a token.
type tokenAnswer struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Last4    string     `json:"last4"`
	Created  time.Time  `json:"created"`
	LastUsed *time.Time `json:"last_used"` // right to within minutes; null: not known
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
	Next   string        `json:"next"` // cursor of the next page, "" when this is the last
}

func (s *Server) createToken(r *request) error {
	name, err := readName(r)
	if err != nil {
		return err
	}
	ctx, cancel := r.changing()
	defer cancel()
	made, value, err := s.deps.Directory.CreateToken(ctx, r.project.Name, name)
	if err != nil {
		return err
	}
	s.changed(r, TokenCreated, r.project, made.ID)
	return r.JSON(http.StatusCreated, newToken{ID: made.ID, Name: made.Name, Token: value.Reveal(), Last4: made.Last4})
}

func (s *Server) listTokens(r *request) error {
	limit, err := readLimit(r)
	if err != nil {
		return err
	}
	after, err := parseTokenCursor(r.QueryParam("cursor"))
	if err != nil {
		return err
	}
	list, err := s.deps.Directory.Tokens(r.Request().Context(), r.project.Name)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(t project.Token) bool { return after.compare(placeOf(t)) >= 0 })
	page := tokenPage{Tokens: []tokenAnswer{}}
	if len(list) > limit {
		list = list[:limit]
		page.Next = placeOf(list[limit-1]).String()
	}
	for _, t := range list {
		page.Tokens = append(page.Tokens, shownToken(t))
	}
	return r.JSON(http.StatusOK, page)
}

func shownToken(t project.Token) tokenAnswer {
	shown := tokenAnswer{ID: t.ID, Name: t.Name, Last4: t.Last4, Created: t.Created}
	if !t.LastUsed.IsZero() {
		shown.LastUsed = &t.LastUsed
	}
	return shown
}

func (s *Server) deleteToken(r *request) error {
	ctx, cancel := r.changing()
	defer cancel()
	id := r.Param("token")
	err := s.deps.Directory.DeleteToken(ctx, r.project.Name, id)
	if errors.Is(err, project.ErrNotFound) || errors.Is(err, project.ErrMalformed) {
		return errNoToken
	}
	if err != nil {
		return err
	}
	s.changed(r, TokenDeleted, r.project, id)
	return r.NoContent(http.StatusNoContent)
}

// tokenPlace is where a token stands in its project's list, whether or not it
// is still there.
type tokenPlace struct {
	created int64 // nanoseconds since 1970
	id      string
}

func placeOf(t project.Token) tokenPlace { return tokenPlace{t.Created.UnixNano(), t.ID} }

func (p tokenPlace) compare(q tokenPlace) int {
	return cmp.Or(cmp.Compare(p.created, q.created), cmp.Compare(p.id, q.id))
}

// String is the place as a cursor.
func (p tokenPlace) String() string { return strconv.FormatInt(p.created, 36) + "-" + p.id }

// parseTokenCursor is the inverse of String; "" is before all tokens.
func parseTokenCursor(cursor string) (tokenPlace, error) {
	if cursor == "" {
		return tokenPlace{}, nil
	}
	first, id, found := strings.Cut(cursor, "-")
	created, err := strconv.ParseInt(first, 36, 64)
	if _, malformed := project.ParseTokenID(id); !found || err != nil || malformed != nil {
		return tokenPlace{}, &fieldError{"cursor", "not one that was given out"}
	}
	return tokenPlace{created, id}, nil
}
