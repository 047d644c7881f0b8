package connect

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/wire"
)

// Bounds of asking for the domain.
const (
	findTimeout = 2 * time.Second // of one request
	findAgain   = 5 * time.Second // after one that nobody has answered
)

// Finder finds out in which JetStream domain a client has the engine's streams.
// A client whose account is the engine's has them in none; one in an account of
// its own has them imported under a domain, and asks $JS.API there in vain. The
// engine sees from where a request comes, so the Finder asks it, once for each
// connection to a server. Its methods may be called from any goroutine.
type Finder struct {
	nc    *nats.Conn
	names wire.Names

	mu    sync.Mutex // held while it asks
	found wire.Names // guarded by mu
	known bool       // found is of the connection numbered at; guarded by mu
	at    uint64     // guarded by mu
	again time.Time  // it does not ask before; guarded by mu
}

// NewFinder makes a Finder for a connection. It sends nothing. A domain that the
// names have already is not questioned.
func NewFinder(nc *nats.Conn, names wire.Names) *Finder {
	return &Finder{nc: nc, names: names, found: names}
}

// Names returns the names with the domain, asking the engine if need be. While
// no engine answers it returns the last names found.
func (f *Finder) Names(ctx context.Context) wire.Names {
	if f.names.Domain != "" {
		return f.names
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	connection := f.nc.Stats().Reconnects
	if f.known && f.at == connection || time.Now().Before(f.again) {
		return f.found
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	var info wire.InfoReply
	m, err := f.nc.RequestWithContext(ctx, f.names.API(wire.APIInfo), nil)
	if err == nil {
		err = json.Unmarshal(m.Data, &info)
	}
	if err != nil || info.Version == "" { // none, or a refusal
		f.again = time.Now().Add(findAgain)
		return f.found
	}
	f.found, f.known, f.at = f.names.In(info.JetStreamDomain), true, connection
	return f.found
}
