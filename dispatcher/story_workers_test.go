package dispatcher

import (
	"fmt"
	"maps"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/wire"
)

// health is a heartbeat that says which of a worker's checks fail.
func (st *story) health(td *datadriven.TestData) string {
	w := td.CmdArgs[0].Key
	h := wire.Heartbeat{Register: wire.Register{Pull: true, Worker: w}, Health: &wire.Health{}}
	for _, a := range td.CmdArgs[1:] {
		h.Health.Failing = append(h.Health.Failing, wire.FailingCheck{Check: a.Key, Error: strings.Join(a.Vals, " ")})
	}
	status, reason := st.reg.Beat(&h)
	st.settle()
	if reason != "" {
		reason = ": " + reason
	}
	return fmt.Sprintf("%s is %s%s\n", w, status, reason)
}

// workers tells what the registry takes the workers for.
func (st *story) workers() string {
	var b strings.Builder
	for _, w := range st.reg.List() {
		fmt.Fprintf(&b, "%s: %s", w.Worker, w.Status)
		if w.Reason != "" {
			fmt.Fprintf(&b, " (%s)", w.Reason)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// consistent compares the counts with the table.
func heldConsistent(h *table.Held, t *table.Table) error {
	want := table.NewHeld()
	want.Active = h.Active
	for _, d := range t.ByToken {
		if d.Claimed {
			want.Count(d, 1)
		}
	}
	if !maps.Equal(h.By, want.By) {
		return fmt.Errorf("workers hold %v, should be %v", h.By, want.By)
	}
	if !maps.Equal(h.Rungs, want.Rungs) {
		return fmt.Errorf("runs by priority are %v, should be %v", h.Rungs, want.Rungs)
	}
	for k, n := range h.Away {
		if n != want.Away[k] {
			return fmt.Errorf("lane %v has %d away, should be %d", k, n, want.Away[k])
		}
	}
	return nil
}
