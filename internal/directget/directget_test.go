package directget

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
)

func TestMain(m *testing.M) { leaks.Check(m) }

// serve returns a connection to a server with a stream of ten messages, on the subjects a.0,
// b.1, a.2 and so on.
func serve(t *testing.T) (*nats.Conn, []time.Time) {
	t.Helper()
	s := natscluster.Alone(t, 0)
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"a.*", "b.*"}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	var times []time.Time
	for i := range 10 {
		m := &nats.Msg{Subject: fmt.Sprintf("%c.%d", 'a'+i%2, i), Data: []byte(fmt.Sprint(i)), Header: nats.Header{"Status": {"404"}, "Nats-Sequence": {"999"}, "Own": {"x"}}}
		if i == 9 {
			m.Header = nil
		}
		ack, err := js.PublishMsg(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := stream.GetMsg(t.Context(), ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, got.Time)
	}
	return nc, times
}

func sequences(msgs []Message) (seqs []uint64) {
	for _, m := range msgs {
		seqs = append(seqs, m.Seq)
	}
	return seqs
}

// The messages come in order, with how many there are behind them. What a message was stored
// with is never taken for what the server says of it.
func TestGet(t *testing.T) {
	nc, times := serve(t)
	for name, c := range map[string]struct {
		req     Request
		want    string
		pending uint64
	}{
		"from the first":  {Request{Seq: 1, Batch: 4}, "[1 2 3 4]", 6},
		"to the last":     {Request{Seq: 8, Batch: 9}, "[8 9 10]", 0},
		"on subjects":     {Request{Seq: 2, NextFor: "a.*", Batch: 3}, "[3 5 7]", 1},
		"from a time on":  {Request{StartTime: &times[6], Batch: 9}, "[7 8 9 10]", 0},
		"behind the last": {Request{Seq: 11, Batch: 9}, "[]", 0},
		"on none":         {Request{Seq: 1, NextFor: "c", Batch: 9}, "[]", 0},
		"up to a size":    {Request{Seq: 1, Batch: 9, MaxBytes: 1}, "[1]", 9},
	} {
		msgs, pending, err := Get(t.Context(), nc, "$JS.API.DIRECT.GET.S", c.req)
		if err != nil || fmt.Sprint(sequences(msgs)) != c.want || pending != c.pending {
			t.Errorf("%s: %v, %d pending, %v; want %s, %d", name, sequences(msgs), pending, err, c.want, c.pending)
		}
		for _, m := range msgs {
			if i := int(m.Seq) - 1; m.Subject != fmt.Sprintf("%c.%d", 'a'+i%2, i) || string(m.Data) != fmt.Sprint(i) || !m.Time.Equal(times[i]) || m.Header.Get("Own") != "x" && i < 9 {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
}

func TestGetFails(t *testing.T) {
	nc, _ := serve(t)
	if _, _, err := Get(t.Context(), nc, "$JS.API.DIRECT.GET.NONE", Request{Seq: 1, Batch: 1}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("nobody answers: %v", err)
	}
	head := func(kv ...string) nats.Header {
		h := nats.Header{}
		for i := 0; i < len(kv); i += 2 {
			h[kv[i]] = []string{kv[i+1]}
		}
		return h
	}
	const at = "2026-01-02T03:04:05Z"
	one := head("Nats-Sequence", "1", "Nats-Time-Stamp", at, "Nats-Subject", "a")
	for name, c := range map[string]struct {
		answer      []nats.Header
		unreachable bool
		says        string
	}{
		"a lost message":  {[]nats.Header{one, head("Status", "204", "Nats-Last-Sequence", "2", "Nats-Num-Pending", "0")}, true, "it ends at 2"},
		"no server":       {[]nats.Header{head("Status", "503")}, true, ""},
		"refused":         {[]nats.Header{head("Status", "408", "Description", "Bad Request")}, false, "408 Bad Request"},
		"a bad count":     {[]nats.Header{head("Status", "204", "Nats-Num-Pending", "many")}, false, "many"},
		"a bad sequence":  {[]nats.Header{head("Nats-Sequence", "one")}, false, "its sequence"},
		"a bad time":      {[]nats.Header{head("Nats-Sequence", "1", "Nats-Time-Stamp", "noon")}, false, "its time"},
		"no end, no time": {[]nats.Header{one}, false, context.Canceled.Error()},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		sub, err := nc.Subscribe("fake", func(m *nats.Msg) {
			for _, h := range c.answer {
				_ = nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: h})
			}
			if name == "no end, no time" {
				cancel()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = Get(ctx, nc, "fake", Request{Seq: 1, Batch: 5})
		if err == nil || errors.Is(err, ErrUnreachable) != c.unreachable || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
	nc.Close()
	if _, _, err := Get(t.Context(), nc, "fake", Request{Seq: 1, Batch: 1}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("without a connection: %v", err)
	}
}

func TestFromLeader(t *testing.T) {
	nc, times := serve(t)
	const subject = "$JS.API.STREAM.MSG.GET.S"
	m, err := FromLeader(t.Context(), nc, subject, Request{Seq: 3})
	if err != nil || m.Seq != 3 || m.Subject != "a.2" || string(m.Data) != "2" || !m.Time.Equal(times[2]) || m.Header.Get("Own") != "x" {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err = FromLeader(t.Context(), nc, subject, Request{Seq: 10}); err != nil || m.Header != nil || string(m.Data) != "9" {
		t.Errorf("without a header: %+v, %v", m, err)
	}
	if _, err = FromLeader(t.Context(), nc, subject, Request{Seq: 11}); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("no such message: %v", err)
	}
	if _, err = FromLeader(t.Context(), nc, "nobody", Request{Seq: 1}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("nobody answers: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = FromLeader(ctx, nc, subject, Request{Seq: 1}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("the caller has gone: %v", err)
	}
	sub, err := nc.Subscribe("fake", func(m *nats.Msg) { _ = m.Respond([]byte("what?")) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if _, err = FromLeader(t.Context(), nc, "fake", Request{Seq: 1}); err == nil || !strings.Contains(err.Error(), "unreadable answer") {
		t.Errorf("no answer of a server: %v", err)
	}
}
