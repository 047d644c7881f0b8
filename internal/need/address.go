package need

import (
	"errors"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
)

// The ports of Address. They lie below the ports that the kernels of our platforms give
// to connections and to listeners of port 0 (Linux: 32768 to 60999, by
// net.ipv4.ip_local_port_range), and above the ports of common services.
const (
	firstPort = 20_000
	lastPort  = 32_000
)

// Address returns a loopback address that nobody listens on, for a server that a test
// starts later, or again. The machine does not assign its port by itself, so nothing
// takes it in between: the port of a closed listener of port 0 may be the end of
// somebody's connection a moment later. Until the test ends no other test is given the
// port, not even one in another process: its UDP port is held.
func Address(t testing.TB) *net.TCPAddr {
	t.Helper()
	for range 100 {
		addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: firstPort + rand.IntN(lastPort-firstPort)}
		held, err := net.ListenUDP("udp", &net.UDPAddr{IP: addr.IP, Port: addr.Port})
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { held.Close() })
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
