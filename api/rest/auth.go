package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
)

// needsKey is where an operation's metadata says which roles it needs.
const needsKey = "needs"

type identityKey struct{}

func withIdentity(ctx context.Context, id access.Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// IdentityOf is who makes the request of this context.
func IdentityOf(ctx context.Context) access.Identity {
	id, _ := ctx.Value(identityKey{}).(access.Identity)
	return id
}

// admit tells who makes a request, and refuses him who lacks every role needed.
func (s *Server) admit(r *http.Request, needed access.Roles) (access.Identity, error) {
	id, err := s.cfg.Auth.Authenticate(r)
	if err == nil && !id.Roles.Has(needed) {
		err = events.Refuse(events.CodeForbidden, "%s may not do that: it needs the role %s, and has %s", id.Name, needed, id.Roles)
	}
	return id, err
}

// authorize is the middleware of all operations.
func (s *Server) authorize(ctx huma.Context, next func(huma.Context)) {
	needed, ok := ctx.Operation().Metadata[needsKey].(access.Roles)
	if !ok {
		needed = access.RolesOf(access.Operate)
	}
	r, w := humago.Unwrap(ctx)
	id, err := s.admit(r, needed)
	if err != nil {
		writeProblem(w, err)
		return
	}
	next(huma.WithContext(ctx, withIdentity(ctx.Context(), id)))
}
