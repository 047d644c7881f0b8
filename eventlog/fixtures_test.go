package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/wire"
)

// fixture is a stream, and writers on it whose appends can be made to fail. All
// implementations of Log pass the same suite.
type fixture interface {
	// open makes a writer.
	open(t *testing.T, foreign ForeignFunc) Log
	// fault strikes the next append of l.
	fault(l Log, f logtest.Fault)
	// land lets what is late arrive.
	land()
	// inject stores a message that no log has appended.
	inject(t *testing.T, header nats.Header, data []byte)
	// trim cuts the log.
	trim(t *testing.T, first uint64)
}

// each runs a test against every implementation.
func each(t *testing.T, run func(t *testing.T, f fixture)) {
	for name, make := range map[string]func(*testing.T) fixture{
		"memory": newMemoryFixture, "replicas": newReplicasFixture, "server": newServerFixture(false), "server_memory": newServerFixture(true),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, make(t))
		})
	}
}

// strangers stores so many messages that no engine wrote.
func strangers(t *testing.T, f fixture, n int) {
	for range n {
		f.inject(t, nil, []byte(`{"stream":"S","seq":1}`))
	}
}

// hooked lets late messages land behind a Last or a Read.
type hooked struct {
	Log
	afterLast, afterRead func()
}

func (h *hooked) Last(ctx context.Context) (Tip, error) {
	tip, err := h.Log.Last(ctx)
	if h.afterLast != nil {
		h.afterLast()
	}
	return tip, err
}

func (h *hooked) Read(ctx context.Context, from, to uint64, fn func(Frame) error) error {
	err := h.Log.Read(ctx, from, to, fn)
	if h.afterRead != nil {
		h.afterRead()
	}
	return err
}

// landing lets late messages land at a moment. A Memory does it by itself.
func landing(l Log, at logtest.Landing, land func()) Log {
	_, itself := l.(*logtest.Memory)
	switch {
	case itself:
	case at == logtest.LandAfterLast:
		return &hooked{Log: l, afterLast: land}
	case at == logtest.LandAfterRead:
		return &hooked{Log: l, afterRead: land}
	}
	return l
}

// rival is a frame of another writer.
func rival(w *Write) *nats.Msg {
	m, err := NewMessage(wire.Default, 0, w)
	if err != nil {
		panic(err)
	}
	return m
}

type memoryFixture struct{ s *logtest.MemoryStream }

func newMemoryFixture(*testing.T) fixture { return &memoryFixture{logtest.NewMemoryStream(0)} }

func (f *memoryFixture) open(t *testing.T, foreign ForeignFunc) Log {
	m := f.s.Open()
	m.OnForeign = foreign
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func (f *memoryFixture) fault(l Log, ft logtest.Fault) { l.(*logtest.Memory).Script(ft) }

func (f *memoryFixture) land() { f.s.Land() }

func (f *memoryFixture) inject(_ *testing.T, header nats.Header, data []byte) {
	f.s.Inject(header, data)
}

func (f *memoryFixture) trim(_ *testing.T, first uint64) { f.s.Trim(first) }

// serverFixture is a stream on a server, whose writers are connected by proxies.
type serverFixture struct {
	s       *server.Server
	nc      *nats.Conn
	proxies map[Log]*proxy
	memory  bool
}

func newServerFixture(memory bool) func(*testing.T) fixture {
	return func(t *testing.T) fixture {
		s := startServer(t, t.TempDir(), nil)
		nc, err := inProcess(s)()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return &serverFixture{s: s, nc: nc, proxies: map[Log]*proxy{}, memory: memory}
	}
}

// onServer is the stream on a server's disk.
func onServer(t *testing.T) *serverFixture { return newServerFixture(false)(t).(*serverFixture) }

func (f *serverFixture) open(t *testing.T, foreign ForeignFunc) Log {
	p := newProxy(t, f.s, f.drain)
	l := openLog(t, Config{Connect: dialURL(p.url()), OnForeign: foreign, Memory: f.memory})
	f.proxies[l] = p
	return l
}

// drain waits until the stream has dealt with everything before: its messages
// go through one queue.
func (f *serverFixture) drain() {
	f.publish(nats.Header{nats.ExpectedLastSeqHdr: {"18446744073709551615"}}, nil)
}

func (f *serverFixture) fault(l Log, ft logtest.Fault) {
	f.proxies[l].arm(ft, func() {
		if ft.Kind == logtest.FaultConflict {
			m := rival(ft.Rival)
			f.publish(m.Header, m.Data)
		}
		for range ft.Foreign {
			f.publish(nil, nil)
		}
	})
}

func (f *serverFixture) publish(header nats.Header, data []byte) {
	m := &nats.Msg{Subject: wire.Default.Frame(0), Header: header, Data: data}
	if _, err := f.nc.RequestMsg(m, logtest.Patience); err != nil {
		panic(err)
	}
}

func (f *serverFixture) land() {
	for _, p := range f.proxies {
		p.land()
	}
}

func (f *serverFixture) inject(_ *testing.T, header nats.Header, data []byte) {
	f.publish(header, data)
}

func (f *serverFixture) trim(t *testing.T, first uint64) {
	f.api(t, "STREAM.PURGE", fmt.Sprintf(`{"seq":%d}`, first))
}

// api asks something of the stream that must succeed.
func (f *serverFixture) api(t *testing.T, what, request string) {
	t.Helper()
	resp, err := f.nc.Request("$JS.API."+what+".WORK_EVENTS_0", []byte(request), logtest.Patience)
	if err != nil || !strings.Contains(string(resp.Data), `"success":true`) {
		t.Fatal(err, string(resp.Data))
	}
}

// replicasFixture is the model of a replicated stream.
type replicasFixture struct {
	t    *testing.T
	c    *logtest.Replicas
	q    *queue
	logs int
	late func()
}

func newReplicasFixture(t *testing.T) fixture {
	c, q := newReplicas(3)
	return &replicasFixture{t: t, c: c, q: q}
}

func (f *replicasFixture) open(_ *testing.T, foreign ForeignFunc) Log {
	l := f.c.Open(f.logs % 3)
	f.logs++
	l.OnForeign = foreign
	return l
}

// agreed waits until everything is agreed on that the leader has taken in.
func (f *replicasFixture) agreed() { f.q.Wait(logtest.Patience, f.c.Idle) }

var errStruck = errors.New("the append was struck")

func (f *replicasFixture) fault(l Log, ft logtest.Fault) {
	l.(*logtest.ReplicaLog).Strike(func(send func()) error {
		switch ft.Kind {
		case logtest.FaultLate:
			f.late = send
		case logtest.FaultAckLost:
			send()
			f.agreed()
		case logtest.FaultConflict:
			m := rival(ft.Rival)
			f.inject(f.t, m.Header, m.Data)
			return nil
		case logtest.FaultForeign:
			strangers(f.t, f, ft.Foreign)
			return nil
		}
		return errStruck
	})
}

func (f *replicasFixture) land() {
	if f.late != nil {
		f.late()
		f.late = nil
		f.agreed()
	}
}

func (f *replicasFixture) inject(_ *testing.T, header nats.Header, data []byte) {
	f.c.Inject(header, data)
	f.agreed()
}

func (f *replicasFixture) trim(t *testing.T, first uint64) {
	if err := f.c.Open(0).Purge(logtest.Context(t), first); err != nil {
		t.Fatal(err)
	}
}
