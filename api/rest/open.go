package rest

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/time/rate"

	"github.com/streamwright/streamwright/events"
)

// Bounds of requests without a login, whose path has the secret that is their right: see
// wire.Route. A body of theirs is never a large one.
const (
	// An address may try MissesPerSecond unknown secrets a second, and MissesAtOnce at once. Requests
	// under way that go beyond that are a debt: until it is paid off, all others are refused.
	MissesPerSecond = 10
	MissesAtOnce    = 50

	missGroups = 256
)

// misses counts what each address misses, in groups of addresses: so its size is fixed.
type misses struct {
	seed   maphash.Seed
	groups [missGroups]*rate.Limiter
}

func newMisses() *misses {
	m := &misses{seed: maphash.MakeSeed()}
	for i := range m.groups {
		m.groups[i] = rate.NewLimiter(MissesPerSecond, MissesAtOnce)
	}
	return m
}

// of returns the limiter of an address, or, of IPv6, of its network.
func (m *misses) of(remote string) *rate.Limiter {
	at, _ := netip.ParseAddrPort(remote) // the zero address if it is none, as in some tests
	bits := 64
	if ip := at.Addr().Unmap(); ip.Is4() {
		at, bits = netip.AddrPortFrom(ip, 0), 32
	}
	network, _ := at.Addr().Prefix(bits)
	return m.groups[maphash.Comparable(m.seed, network)%missGroups]
}

// admitAnyone lets a request pass that needs no login.
func (s *Server) admitAnyone(hc huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(hc)
	if b, ok := r.Body.(*body); ok {
		b.most = LargeBody
	}
	if s.misses.of(r.RemoteAddr).Tokens() < 1 {
		writeProblem(w, &events.Error{Code: events.CodeQuotaExceeded, Message: "too many requests from this address were refused: ask again after retry_after_ms", RetryAfter: time.Second})
		return
	}
	if err := s.strict(r); err != nil {
		s.missed(r, err)
		writeProblem(w, err)
		return
	}
	next(hc)
}

// missed counts a request without a login that was refused, unless it had the secret or the
// engine could not look. The count may become a debt.
func (s *Server) missed(r *http.Request, err error) {
	switch events.CodeOf(err) {
	case events.CodeAlreadyCompleted, events.CodeEnded, events.CodeWrongState, events.CodeForbidden, events.CodeMailboxFull, events.CodeUnavailable, events.CodeNotOwner, events.CodeTimeout, events.CodeInternal:
	default:
		s.misses.of(r.RemoteAddr).ReserveN(time.Now(), 1)
	}
}
