package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// needsKey is the key of the roles in an operation's metadata.
const needsKey = "needs"

// endpointKey is the key of the engine's endpoint that an operation asks in its metadata.
const endpointKey = "endpoint"

// IdentityOf returns the identity that makes the request of this context.
func IdentityOf(ctx context.Context) access.Identity {
	id, _ := access.IdentityOf(ctx)
	return id
}

// admit returns the identity that makes a request. It refuses one that has none of
// the roles needed.
func (s *Server) admit(r *http.Request, needed access.Roles) (access.Identity, error) {
	id, err := s.cfg.Auth.Authenticate(r)
	if err == nil && !id.Roles.Has(needed) {
		err = events.Refuse(events.CodeForbidden, "%s may not do that: it needs the role %s, and has %s", id.Name, needed, cmp.Or(id.Roles.String(), "none in this namespace"))
	}
	return id, err
}

// user returns the quotas' user for an identity; nil without a limit.
func (s *Server) user(id access.Identity) *quota.User {
	if id == access.Anyone {
		return nil // without logins nobody can be counted
	}
	return s.cfg.Quotas.User(quota.HTTP, id.Name, id.Roles)
}

// countRequest counts a request, unless it is a worker's about its runs: to
// refuse that would cost a lease.
func (s *Server) countRequest(u *quota.User, needed access.Roles) error {
	if needed == access.RolesOf(access.Work) {
		return nil
	}
	if err := u.Request(); err != nil {
		return err
	}
	return s.cfg.Quotas.Request()
}

// everywhere reports whether an operation asks an endpoint that takes roles in every namespace.
func everywhere(op *huma.Operation) bool {
	name, _ := op.Metadata[endpointKey].(string)
	e, ok := wire.EndpointOf(name)
	return ok && e.Everywhere
}

// guard watches over a request that takes its time: its context ends once its
// maker would be refused, with the refusal as its cause.
type guard struct {
	s      *Server
	r      *http.Request // a copy: the handler may change its own
	needed access.Roles
	cancel context.CancelCauseFunc
	leave  func() // counts the request out of its maker's quota

	mu       sync.Mutex
	released bool        // guarded by mu
	forget   func() bool // guarded by mu
}

// guarded is admit for a long request. The returned context is ctx with a cancel;
// call release when the request ends.
func (s *Server) guarded(ctx context.Context, r *http.Request, needed access.Roles) (_ context.Context, release func(), _ error) {
	changed := s.cfg.Auth.Changed() // before who makes it is known: a change in between counts
	id, err := s.admit(r, needed)
	if err != nil {
		return nil, nil, err
	}
	if err := s.strict(r); err != nil {
		return nil, nil, err
	}
	user := s.user(id)
	if err := s.countRequest(user, needed); err != nil {
		return nil, nil, err
	}
	leave, err := user.Wait()
	if err != nil {
		return nil, nil, err
	}
	g := &guard{s: s, r: r.Clone(ctx), needed: needed, leave: leave}
	ctx, g.cancel = context.WithCancelCause(access.WithIdentity(ctx, id))
	g.watch(changed)
	return ctx, g.release, nil
}

// watch asks again when changed ends.
func (g *guard) watch(changed context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.released {
		g.forget = context.AfterFunc(changed, g.again)
	}
}

func (g *guard) again() {
	changed := g.s.cfg.Auth.Changed()
	if _, err := g.s.admit(g.r, g.needed); err != nil {
		g.cancel(err)
		return
	}
	g.watch(changed)
}

func (g *guard) release() {
	g.mu.Lock()
	g.released = true
	g.forget()
	g.mu.Unlock()
	g.leave()
	g.cancel(nil)
}

// refusal returns why a guarded request was ended; nil if it was not.
func refusal(ctx context.Context) error {
	if e := (*events.Error)(nil); errors.As(context.Cause(ctx), &e) {
		return e
	}
	return nil
}

// authorize is the middleware of all operations. Ordinary ones, which are soon
// over, end with the right that they began with.
func (s *Server) authorize(ctx huma.Context, next func(huma.Context)) {
	needed := rolesOf(ctx.Operation())
	if needed == 0 {
		s.admitAnyone(ctx, next)
		return
	}
	r, w := humago.Unwrap(ctx)
	if paceOf(ctx) != ordinary {
		inner, release, err := s.guarded(ctx.Context(), r, needed)
		if err != nil {
			writeProblem(w, err)
			return
		}
		defer release()
		next(huma.WithContext(ctx, inner))
		return
	}
	id, err := s.admit(r, needed)
	if err == nil && everywhere(ctx.Operation()) && !id.Memberships.Every().Has(needed) {
		err = events.Refuse(events.CodeForbidden, "%s may not do that: it concerns all namespaces, and needs the role %s in every one (*/%s)", id.Name, needed, needed)
	}
	if err == nil {
		err = s.strict(r)
	}
	if err == nil {
		err = s.countRequest(s.user(id), needed)
	}
	if err != nil {
		writeProblem(w, err)
		return
	}
	next(huma.WithContext(ctx, access.WithIdentity(ctx.Context(), id)))
}
