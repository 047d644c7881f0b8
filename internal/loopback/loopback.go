// Package loopback finds ports on the loopback interface for programs that start
// several servers on one machine.
package loopback

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
)

// Free returns n different addresses (host:port) on which nobody listens. They are
// below the ports that kernels assign by themselves, so that a server that is started
// again finds its own still free.
func Free(n int) (addrs []string, err error) {
	var held []io.Closer
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000)))
		if err != nil {
			continue
		}
		held, addrs = append(held, l), append(addrs, l.Addr().String())
		if len(addrs) == n {
			return addrs, nil
		}
	}
	return nil, errors.New("no loopback ports from 20000 to 32000 are free")
}
