package streamwright_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// reader collects an item's output as a follower sees it.
type reader struct {
	t      testing.TB
	text   []byte // of the run that is known
	resets int
	last   uint64
	cut    bool
}

func (r *reader) take(o streamwright.OutputChunk) error {
	b, err := o.Bytes()
	if err != nil {
		return err
	}
	if o.Reset {
		r.resets++
		r.text = nil
	}
	if o.Offset != len(r.text) || o.Seq <= r.last {
		r.t.Errorf("chunk %d has the offset %d behind %d bytes of chunk %d", o.Seq, o.Offset, len(r.text), r.last)
	}
	r.text, r.last, r.cut = append(r.text, b...), o.Seq, o.Cut
	return nil
}

// noise returns n bytes, of which some are characters of several bytes.
func noise(n int, seed uint64) []byte {
	r, out := rand.New(rand.NewPCG(seed, 1)), make([]byte, 0, n)
	for len(out) < n {
		switch r.IntN(3) {
		case 0:
			out = append(out, "größer als €"...)
		case 1:
			out = append(out, byte(r.IntN(256)))
		default:
			out = append(out, '\n')
		}
	}
	return out[:n]
}

// pieces writes all in pieces of any size.
func pieces(out *workers.Output, all []byte) error {
	for n := 1; len(all) > 0; n = n*3%9973 + 1 {
		n = min(n, len(all))
		if _, err := out.Write(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

func TestOutputIsFollowed(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	all, seen := noise(300_000, 1), make(chan struct{})
	e.work("email", func(ctx context.Context, it *workers.RawItem) (any, error) {
		out := it.Output()
		if err := errors.Join(pieces(out, all[:1000]), out.Flush()); err != nil {
			return nil, err
		}
		select {
		case <-seen: // a follower has that while the run lasts
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return nil, pieces(out, all[1000:])
	})
	s := submit(t, c)
	r := &reader{t: t}
	first := true
	err := c.FollowOutput(ctx, s.ID, 0, func(o streamwright.OutputChunk) error {
		if err := r.take(o); err != nil {
			return err
		}
		if first && len(r.text) >= 1000 {
			first = false
			close(seen)
		}
		return nil
	})
	if err != nil || !bytes.Equal(r.text, all) || r.resets != 1 {
		t.Fatalf("%d bytes of %d, %d resets, %v", len(r.text), len(all), r.resets, err)
	}
	if got, err := c.Output(ctx, s.ID); err != nil || !bytes.Equal(got, all) {
		t.Errorf("read whole: %d bytes, %v", len(got), err)
	}
	// A reader that goes on where it was misses nothing, wherever that was.
	chunks := []streamwright.OutputChunk{}
	if err := c.FollowOutput(ctx, s.ID, 0, func(o streamwright.OutputChunk) error { chunks = append(chunks, o); return nil }); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(chunks); i += max(len(chunks)/5, 1) {
		r := &reader{t: t, text: all[:chunks[i].Offset:chunks[i].Offset]}
		b, _ := chunks[i].Bytes()
		r.text = append(r.text, b...)
		r.last = chunks[i].Seq
		if err := c.FollowOutput(ctx, s.ID, chunks[i].Seq, r.take); err != nil || !bytes.Equal(r.text, all) || r.resets != 0 {
			t.Errorf("behind chunk %d: %d bytes, %d resets, %v", i, len(r.text), r.resets, err)
		}
	}
	if _, err := c.Output(ctx, events.ID{1}.String()); !errors.Is(err, &streamwright.Error{Code: streamwright.CodeNotFound}) {
		t.Errorf("of an unknown item: %v", err)
	}
}

// A run that is taken for dead writes on, and none of it gets into what the next one writes.
func TestOutputOfTwoRunsIsNeverMixed(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	runs := make(chan wire.Assigned, 10)
	if _, err := c.Conn().Subscribe(wire.Default.RunsOf("s1"), func(m *nats.Msg) {
		list, _ := wire.DecodeAssigned(nil, m.Data)
		for _, a := range list {
			runs <- a
		}
	}); err != nil {
		t.Fatal(err)
	}
	tell[wire.Registered](t, c, wire.APIRegister, wire.Register{Worker: "w1", Session: "s1", Types: []string{"email"}, Slots: 1, Offers: true})
	offer := func() {
		tell[wire.OK](t, c, wire.APIOffer, wire.Offer{Worker: "w1", Session: "s1", Room: 1})
	}
	s := submit(t, c)
	offer()
	old := <-runs
	write := func(a wire.Assigned, offset int, text string) (wire.OutputSummary, error) {
		return try[wire.OutputSummary](t, c, wire.APIOutputWrite, wire.OutputWrite{ID: a.ID, Token: a.Token, Offset: &offset, OutputBytes: wire.OutputBytesOf([]byte(text))})
	}
	must := func(a wire.Assigned, offset int, text string, want int) {
		t.Helper()
		if sum, err := write(a, offset, text); err != nil || sum.Bytes != want || sum.Cut {
			t.Errorf("%q at %d: %+v, %v, want %d bytes", text, offset, sum, err, want)
		}
	}
	is := func(want string) {
		t.Helper()
		if got, err := c.Output(ctx, s.ID); err != nil || string(got) != want {
			t.Errorf("the output is %q, %v, want %q", got, err, want)
		}
	}
	must(old, 0, "of the first", 12)
	must(old, 0, "of the first", 12)     // its answer was lost
	must(old, 6, " first run", 16)       // and that of this, in part
	must(old, 0, "of the first run", 16) // late
	is("of the first run")
	if _, err := write(old, 17, "x"); !errors.Is(err, &streamwright.Error{Code: events.CodeBadRequest}) {
		t.Errorf("a gap: %v", err)
	}
	// The worker hands the item back, and a run of it goes on all the same.
	tell[[]wire.Reported](t, c, wire.APIReport, []wire.Report{{ID: old.ID, Token: old.Token, Worker: "w1", Session: "s1", Event: wire.ReportRelease}})
	if _, err := write(old, 16, "!"); !errors.Is(err, &streamwright.Error{Code: events.CodeStaleToken}) {
		t.Errorf("a run that was handed back: %v", err)
	}
	is("of the first run") // until the next one writes
	offer()
	next := <-runs
	if _, err := write(old, 16, "!"); !errors.Is(err, &streamwright.Error{Code: events.CodeStaleToken}) {
		t.Errorf("while another has it: %v", err)
	}
	must(next, 0, "", 0)
	is("")
	must(next, 0, "", 0)
	must(next, 0, "second", 6)
	is("second")
	if sum, err := try[wire.OutputSummary](t, c, wire.APIOutputWrite, wire.OutputWrite{ID: next.ID, Token: next.Token, OutputBytes: wire.OutputBytesOf([]byte{0xff})}); err != nil || sum.Bytes != 7 {
		t.Errorf("without an offset: %+v, %v", sum, err)
	}
	is("second\xff")
	for code, req := range map[events.Code]wire.OutputWrite{
		events.CodeTooLarge:   {ID: next.ID, Token: next.Token, OutputBytes: wire.OutputBytesOf(make([]byte, wire.MaxOutputChunk+1))},
		events.CodeBadRequest: {ID: next.ID, Token: next.Token, OutputBytes: wire.OutputBytes{Base64: "*"}},
		events.CodeStaleToken: {ID: next.ID, Token: "1"},
		events.CodeNotFound:   {ID: events.ID{1}.String(), Token: next.Token},
	} {
		if _, err := try[wire.OutputSummary](t, c, wire.APIOutputWrite, req); !errors.Is(err, &streamwright.Error{Code: code}) {
			t.Errorf("got %v, want %s", err, code)
		}
	}
	tell[[]wire.Reported](t, c, wire.APIReport, []wire.Report{{ID: next.ID, Token: next.Token, Worker: "w1", Session: "s1", Event: wire.ReportComplete, Start: true}})
	if _, err := write(next, 7, "!"); !errors.Is(err, &streamwright.Error{Code: events.CodeStaleToken}) {
		t.Errorf("of an item that has ended: %v", err)
	}
	is("second\xff")
}

// An engine that restarts while a worker writes, again and again, loses nothing, and stores
// nothing twice; who follows it sees each byte once.
func TestOutputOutlivesTheEngine(t *testing.T) {
	e := startOnDisk(t)
	c, ctx := connect(t, e), testContext(t)
	all := noise(200_000, 2)
	step, stepped := make(chan int), make(chan struct{})
	w, err := streamwright.NewWorker(c, workers.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "email", func(ctx context.Context, it *workers.RawItem) (any, error) {
		done := 0
		for n := range step {
			if err := pieces(it.Output(), all[done:n]); err != nil {
				return nil, err
			}
			done = n
			stepped <- struct{}{}
		}
		return nil, nil
	})
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer w.Stop(ctx)
	s := submit(t, c)
	r, followed := &reader{t: t}, make(chan error, 1)
	go func() { followed <- c.FollowOutput(ctx, s.ID, 0, r.take) }()
	for n := 40_000; n <= len(all); n += 40_000 {
		step <- n
		<-stepped // what does not fit into the worker's buffer is with the engine
		if n < len(all) {
			e.restart()
		}
	}
	close(step)
	if err := <-followed; err != nil || !bytes.Equal(r.text, all) || r.resets != 1 {
		t.Errorf("%d bytes of %d, %d resets, %v", len(r.text), len(all), r.resets, err)
	}
	if it, err := c.Wait(ctx, s.ID); err != nil || it.State != events.StateCompleted || it.Attempt != 1 {
		t.Errorf("%+v, %v", it, err)
	}
}

func TestOutputIsBounded(t *testing.T) {
	conf := config.Default()
	conf.Limits.OutputItem = 10_000
	e := startAs(t, embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", Config: conf})
	c, ctx := connect(t, e), testContext(t)
	all := noise(30_000, 3)
	e.work("email", func(ctx context.Context, it *workers.RawItem) (any, error) {
		out := it.Output()
		if err := errors.Join(pieces(out, all[:9_999]), out.Flush()); err != nil {
			return nil, err
		}
		_, _ = out.Write(all[9_999:])
		if err := out.Flush(); !errors.Is(err, workers.ErrOutputFull) {
			return nil, fmt.Errorf("flush: %w", err)
		}
		if _, err := out.Write([]byte("x")); !errors.Is(err, workers.ErrOutputFull) {
			return nil, fmt.Errorf("write: %w", err)
		}
		return out.Summary(), nil // the run goes on
	})
	s := submit(t, c)
	r := &reader{t: t}
	if err := c.FollowOutput(ctx, s.ID, 0, r.take); err != nil || !bytes.Equal(r.text, all[:10_000]) || !r.cut {
		t.Errorf("%d bytes, cut %v, %v", len(r.text), r.cut, err)
	}
	if it, err := c.Wait(ctx, s.ID); err != nil || it.State != events.StateCompleted || string(it.Result) != `{"bytes":10000,"cut":true}` {
		t.Errorf("%s %s, %v", it.State, it.Result, err)
	}
}

// The output goes with its item.
func TestOutputIsPruned(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	e.work("email", func(ctx context.Context, it *workers.RawItem) (any, error) {
		return it.Output().WriteString("of " + it.ID.String())
	})
	s, kept := submit(t, c), submit(t, c)
	for _, id := range []string{s.ID, kept.ID} {
		if it, err := c.Wait(ctx, id); err != nil || it.State != events.StateCompleted {
			t.Fatalf("%+v, %v", it, err)
		}
	}
	js, err := jetstream.New(c.Conn())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Purge(ctx, s.ID, "asked for"); err != nil {
		t.Fatal(err)
	}
	for {
		stream, err := js.Stream(ctx, wire.Default.OutputStream())
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(wire.Default.OutputAll()))
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs == 1 {
			break // else it is under way; ctx ends if it is not
		}
	}
	if got, err := c.Output(ctx, kept.ID); err != nil || string(got) != "of "+kept.ID {
		t.Errorf("of the other: %q, %v", got, err)
	}
}

// Outputs are of one namespace, in a stream of its own.
func TestOutputInANamespace(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	addNamespace(t, c, "acme")
	in, err := c.In("acme")
	if err != nil {
		t.Fatal(err)
	}
	w, err := streamwright.NewWorker(c, workers.Config{Namespaces: []events.Namespace{"default", "acme"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "email", func(_ context.Context, it *workers.RawItem) (any, error) {
		return it.Output().WriteString("in " + string(it.Namespace))
	})
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer w.Stop(ctx)
	for ns, c := range map[string]*streamwright.Client{"default": c, "acme": in} {
		r := &reader{t: t}
		if err := c.FollowOutput(ctx, submit(t, c).ID, 0, r.take); err != nil || string(r.text) != "in "+ns {
			t.Errorf("%s: %q, %v", ns, r.text, err)
		}
	}
	js, err := jetstream.New(c.Conn())
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range []events.Namespace{"default", "acme"} {
		stream, err := js.Stream(ctx, wire.Default.Namespace(ns).OutputStream())
		if err != nil || stream.CachedInfo().State.Msgs != 1 {
			t.Errorf("the stream of %s: %v", ns, err)
		}
	}
}

// try makes a request of the engine.
func try[T any](t testing.TB, c *streamwright.Client, endpoint string, req any) (reply T, err error) {
	t.Helper()
	body, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Conn().RequestWithContext(testContext(t), wire.Default.API(endpoint), body)
	if err != nil {
		t.Fatal(err)
	}
	var refused wire.ErrorReply
	if json.Unmarshal(m.Data, &refused) == nil && refused.Error != nil {
		return reply, refused.Error.Err()
	}
	return reply, json.Unmarshal(m.Data, &reply)
}

func tell[T any](t testing.TB, c *streamwright.Client, endpoint string, req any) T {
	t.Helper()
	reply, err := try[T](t, c, endpoint, req)
	if err != nil {
		t.Fatalf("%s: %v", endpoint, err)
	}
	return reply
}
