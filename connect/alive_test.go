package connect

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// deaf dials a server that reads nothing after the client's first ping.
type deaf struct{ t *testing.T }

func (d deaf) Dial(_, _ string) (net.Conn, error) {
	client, server := net.Pipe() // without a buffer: a write that nobody reads blocks at once
	d.t.Cleanup(func() { _ = server.Close() })
	go func() {
		_, _ = io.WriteString(server, `INFO {"server_id":"x","version":"2.15.2","proto":1,"max_payload":1048576}`+"\r\n")
		r := bufio.NewReader(server)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "PING") {
				_, _ = io.WriteString(server, "PONG\r\n")
				return
			}
		}
	}()
	return client, nil
}

// A connection whose server reads no more is given up for a write that blocks: while it
// does, no ping is sent.
func TestAliveWhereAWriteBlocks(t *testing.T) {
	var o nats.Options
	if err := Alive(&o); err != nil || o.FlusherTimeout == 0 || o.FlusherTimeout > 10*time.Second {
		t.Errorf("a write may take %s: %v", o.FlusherTimeout, err)
	}
	lost := make(chan error, 1)
	nc, err := nats.Connect("nats://server:4222", Alive, nats.FlusherTimeout(10*time.Millisecond), nats.SetCustomDialer(deaf{t}), nats.MaxReconnects(-1), nats.ReconnectWait(time.Hour),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { lost <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.Publish("a", []byte("b")); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection ended for another reason: %v", err)
	}
}
