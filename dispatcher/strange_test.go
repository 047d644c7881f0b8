package dispatcher

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// An owner that only a foreign message has fenced takes over again at once, also where there
// may be other engines; one whose appends such messages refuse again and again waits.
func TestAForeignMessageIsNoRival(t *testing.T) {
	out := new(need.Log)
	h := newHarness(t, func(c *Config) { c.Alone, c.Logger = false, slog.New(slog.NewTextHandler(out, nil)) })
	h.submit("email")
	for n := range maxStrange + 1 {
		epoch := h.eng.Epoch()
		if _, err := h.nc.Request(wire.Default.Frame(0), []byte("hm"), time.Minute); err != nil {
			t.Fatal(err)
		}
		h.submitUntilTaken(events.ID{0: 1, 15: byte(n + 1)}, "")
		h.until("another ownership", func() bool { return h.eng.Epoch() > epoch })
	}
	var waits []string
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "ownership of the partition has ended") {
			_, wait, _ := strings.Cut(strings.TrimSpace(line), " in=")
			waits = append(waits, wait)
		}
	}
	for n, wait := range waits {
		if (wait == "0s") != (n < maxStrange) {
			t.Errorf("the waits before a takeover are %q", waits)
			break
		}
	}
	if len(waits) != maxStrange+1 {
		t.Errorf("the ownership ended %d times, for %d foreign messages", len(waits), maxStrange+1)
	}
	h.equalsLog()
}

// What has refused an append is a rival if another engine wrote it, and if nobody knows.
func TestRivalled(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(*logtest.MemoryStream)
		rival bool
	}{
		"a foreign message": {func(s *logtest.MemoryStream) { s.Inject(nats.Header{}, []byte("hm")) }, false},
		"an earlier owner":  {func(s *logtest.MemoryStream) { ownedBy(t, s, 1) }, false},
		"another engine":    {func(s *logtest.MemoryStream) { s.Inject(nil, nil); ownedBy(t, s, 3) }, true},
		"nobody knows":      {func(s *logtest.MemoryStream) { ownedBy(t, s, 2); s.Trim(3) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := logtest.NewMemoryStream(0)
			ownedBy(t, s, 2)
			c.then(s)
			if got := rivalled(t.Context(), s.Open(), 2, &eventlog.FencedError{Expected: 1}); got != c.rival {
				t.Errorf("a rival: %t", got)
			}
		})
	}
}

// ownedBy has an owner's frame stored.
func ownedBy(t *testing.T, s *logtest.MemoryStream, epoch events.Epoch) {
	t.Helper()
	m, err := eventlog.NewMessage(wire.Default, 0, &eventlog.Write{Epoch: epoch, Node: "x", Events: []events.Event{
		{Kind: events.KindOwned, At: simStart, Body: &events.Owned{Epoch: epoch, Owner: "x"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Inject(m.Header, m.Data)
}
