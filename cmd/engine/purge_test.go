package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/wire"
)

// logHas reports whether any event that the log itself still holds has a text in it.
func logHas(t *testing.T, url, text string) bool {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), wire.Default.EventStream(0))
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		msg, err := s.GetMsg(t.Context(), seq)
		if err == nil && strings.Contains(string(msg.Data), text) {
			return true
		}
	}
	return false
}

// ended submits an item with params, and cancels it.
func ended(t *testing.T, typ, params string) string {
	t.Helper()
	var sub wire.Submitted
	if err := json.Unmarshal([]byte(engine(t, "", "submit", typ, params, "--json").wants(t, 0).out), &sub); err != nil {
		t.Fatal(err)
	}
	engine(t, "", "cancel", sub.ID).wants(t, 0)
	return sub.ID
}

// What is purged is still in the log until that is cut; with --now it is cut at once, and
// what is kept stays.
func TestPurgeNow(t *testing.T) {
	url := realEngine(t)
	t.Setenv("NATS_URL", url)
	kept := ended(t, "card", `{"note":"to be kept"}`)
	plain := ended(t, "card", `{"pan":"secret-1"}`)
	engine(t, "", "purge", plain).wants(t, 0, "purged")
	if !logHas(t, url, "secret-1") {
		t.Error("a purge alone is said to leave the contents in the log; it does not")
	}

	// A time that is too short says what is left, and why; the cut goes on.
	one := ended(t, "card", `{"pan":"secret-2"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // as Ctrl-C; the log is synced after five
	defer cancel()
	var out, errs strings.Builder
	if code := run(ctx, []string{"purge", one, "--now"}, nil, &out, &errs); code == 0 || !strings.Contains(errs.String(), "still holds the contents of "+one) || !strings.Contains(errs.String(), "is under way") {
		t.Errorf("exit code %d; %s%s", code, out.String(), errs.String())
	}

	// The round that is under way has begun before this purge: another must follow it.
	two := ended(t, "card", `{"pan":"secret-3"}`)
	engine(t, "", "purge", two, "--now").wants(t, 0, "purged", "no longer holds them")
	for _, text := range []string{"secret-1", "secret-2", "secret-3"} {
		if logHas(t, url, text) {
			t.Errorf("%s is still in the log", text)
		}
	}
	if !logHas(t, url, "to be kept") {
		t.Error("what is kept is not in the log")
	}
	engine(t, "", "show", kept).wants(t, 0, "to be kept")

	// One of two is not there: the command fails, and the log is cut past the other.
	three := ended(t, "card", `{"pan":"secret-6"}`)
	engine(t, "", "purge", anID, three, "--now").wants(t, 1, anID+": not_found", three+"  purged", "no longer holds them")
	if logHas(t, url, "secret-6") {
		t.Error("what was purged beside an item that is not there is still in the log")
	}

	// By filters.
	ended(t, "pass", `{"pan":"secret-4"}`)
	ended(t, "pass", `{"pan":"secret-5"}`)
	engine(t, "", "purge", "--type", "pass", "--state", "cancelled", "--now", "--yes").wants(t, 0, "2 items purged", "no longer holds them")
	if logHas(t, url, "secret-4") || logHas(t, url, "secret-5") {
		t.Error("what was purged by filters is still in the log")
	}
	engine(t, "", "purge", "--type", "pass", "--now", "--dry-run").wants(t, 2, "give one of them")
}
