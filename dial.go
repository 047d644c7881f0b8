package streamwright

import (
	"context"
	"net"
	"sync"
)

// dialer makes the end of Connect's context end the first connection, which
// the NATS client by itself can't; reconnecting is bound by its timeout alone.
type dialer struct {
	mu         sync.Mutex
	connecting context.Context // nil once connected
	release    []func() bool
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	ctx := d.connecting
	d.mu.Unlock()
	nd := net.Dialer{Timeout: DefaultConnectTimeout}
	if ctx == nil {
		return nd.Dial(network, address)
	}
	conn, err := nd.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	// A server that accepts and then says nothing must not outlast ctx either.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	d.mu.Lock()
	d.release = append(d.release, stop)
	d.mu.Unlock()
	return conn, nil
}

// connected lets the connection outlive the context.
func (d *dialer) connected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.release {
		stop()
	}
	d.connecting, d.release = nil, nil
}
