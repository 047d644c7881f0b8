package need

import (
	"errors"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
)

// The ports of Address. They lie below those that the kernels of our platforms give
// to connections and to listeners of port 0 (Linux: 32768 to 60999, by
// net.ipv4.ip_local_port_range), and above those of common services.
const (
	firstPort = 20_000
	lastPort  = 32_000
)

// Address returns a loopback address that nobody listens on, for a server that a
// test starts later, or again. Its port is none that the machine gives away by
// itself, so that nothing takes it in between: a port that a listener of port 0 had,
// and has closed, may be the end of somebody's connection a moment later.
func Address(t testing.TB) *net.TCPAddr {
	t.Helper()
	for range 100 {
		addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: firstPort + rand.IntN(lastPort-firstPort)}
		l, err := net.ListenTCP("tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return addr
	}
	t.Fatalf("no port from %d to %d is free", firstPort, lastPort)
	return nil
}
