package main

import (
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/wire"
)

// `engine list` has every filter of docs/guides/LISTING.md.
func TestListFilters(t *testing.T) {
	e := start(t)
	e.work("", "failing", fails("no_mailbox", "no such mailbox"))
	submit := func(args ...string) string {
		out := engine(t, "", append([]string{"submit"}, args...)...).wants(t, 0).out
		return strings.Fields(out)[0]
	}
	cancelled := submit("waiting", "--tenant", "acme")
	queued := submit("waiting", "--label", "region=eu", "--dedup-key", "order-4711")
	dead := submit("failing")
	engine(t, "", "cancel", cancelled, "--reason", "mistake").wants(t, 0)
	engine(t, "", "submit", "failing", "--id", dead, "--wait").wants(t, 1, "dead after 1 attempt: no such mailbox (no_mailbox)")
	all := []string{cancelled, queued, dead}
	for line, want := range map[string][]string{
		"--state queued":      {queued},
		"--type failing":      {dead},
		"--tenant acme":       {cancelled},
		"--label region=eu":   {queued},
		"--code no_mailbox":   {dead},
		"--reason mistake":    {cancelled},
		"--error mailbox":     {dead},
		"--q order-4711":      {queued},
		"--worker nobody":     {},
		"--created-after 1h":  all,
		"--created-before 1h": {},
		"--code other":        {},
		"--created-after 2030-01-31T08:00:00Z --type failing": {},
	} {
		got := engine(t, "", append([]string{"list", "--json"}, strings.Fields(line)...)...).wants(t, 0).out
		for _, id := range all {
			is := strings.Contains(got, `"id":"`+id+`"`)
			should := false
			for _, w := range want {
				should = should || w == id
			}
			if is != should {
				t.Errorf("%s: item %s is listed: %v, should be: %v", line, id, is, should)
			}
		}
	}
}

// What is long is cut on a terminal, and whole for programs and files.
func TestNothingIsCutInAFile(t *testing.T) {
	e := start(t)
	long := strings.Repeat("a long story ", 40) + "and its end"
	e.work("", "email", fails("error", long))
	engine(t, "", "submit", "email", "--wait").wants(t, 1)
	engine(t, "", "list").wants(t, 0, long)
	if got := console.ItemNote(streamwright.WorkItem{Error: &wire.ItemError{Message: long}}, time.Now(), console.TerminalStyle); strings.Contains(got, "its end") || !strings.HasSuffix(got, "…") {
		t.Errorf("on a terminal: %q", got)
	}
}

// An item that never ran, for what it comes after has ended badly, has an error without
// a code.
func TestErrorWithoutCode(t *testing.T) {
	e := start(t)
	e.work("", "email", fails("error", "no such mailbox"))
	before := strings.Fields(engine(t, "", "submit", "email").wants(t, 0).out)[0]
	says := "item " + before + ", which it comes after, is dead"
	engine(t, "", "submit", "receipt", "--id", anID, "--after", before, "--after-policy", "dead", "--wait").wants(t, 1, says)
	if out := engine(t, "", "list", "--type", "receipt").wants(t, 0, "  "+says).out; strings.Contains(out, ": "+says) {
		t.Errorf("list says %s", out)
	}
	engine(t, "", "show", anID).wants(t, 0, says+" (not retryable)\n")
}
