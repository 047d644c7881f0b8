package rest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A client that stops reading a large reply holds neither its handler nor its connection.
func TestALargeReplyThatIsNotReadEnds(t *testing.T) {
	ended := make(chan error, 1)
	s := listening(t, Config{}, func(s *Server) {
		s.writeTime = 100 * time.Millisecond
		s.Mount("GET /api/v1/large", 0, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 64<<20))
			ended <- err
		}))
	})
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /api/v1/large HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the write has ended with %v", err)
	}
	if n, _ := io.Copy(io.Discard, conn); n >= 64<<20 { // until the server closes it
		t.Errorf("all %d bytes came", n)
	}
}

// slow is a connection whose client takes its time for each write.
type slow struct {
	http.ResponseWriter
	takes    time.Duration
	deadline time.Time
}

func (s *slow) SetWriteDeadline(at time.Time) error { s.deadline = at; return nil }

func (s *slow) Write(p []byte) (int, error) {
	if time.Sleep(s.takes); time.Now().After(s.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return len(p), nil
}

// Each part of a reply has time of its own, but where a handler sets deadlines.
func TestALargeReplyHasTimeForEachPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slow{takes: time.Second}
		to := &reply{ResponseWriter: w, rc: http.NewResponseController(w), patience: time.Second}
		doc := make([]byte, 9*documentPart+1)
		if n, err := to.Write(doc); err != nil || n != len(doc) {
			t.Errorf("%d bytes, %v", n, err)
		}
		if n, err := to.Write(nil); err != nil || n != 0 {
			t.Errorf("%d bytes of none, %v", n, err)
		}
		_ = http.NewResponseController(to).SetWriteDeadline(time.Now().Add(2 * time.Second))
		if n, err := to.Write(doc); !errors.Is(err, os.ErrDeadlineExceeded) || n != 2*documentPart {
			t.Errorf("with a deadline of the handler's: %d bytes, %v", n, err)
		}
	})
}
