package api

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// well is the condition of an engine that nothing keeps from its work.
var well = condition{running: true, connected: true, owned: true}

func TestAlarms(t *testing.T) {
	full := &RoomAlarm{Status: wire.AlarmDiskLow, Fact: "the disk is nearly full (1 MiB free)", Do: "make room", Why: events.Refuse(events.CodeUnavailable, "full")}
	hold := *full
	hold.Hold = true
	for name, tc := range map[string]struct {
		change func(*condition)
		codes  string // of the alarms, the critical ones with an exclamation mark
		status string
		ready  bool
		says   string // by the first
	}{
		"well":         {func(*condition) {}, "", "ok", true, ""},
		"disconnected": {func(c *condition) { c.connected, c.owned = false, false }, "nats_disconnected!", "nats_disconnected", false, "no connection to NATS"},
		"recovering":   {func(c *condition) { c.owned = false }, "not_owner!", "not_owner", false, "does not own its log"},
		"apart":        {func(c *condition) { c.apart = errors.New("1 of 3") }, "cut_off!", "cut_off", false, "does not reach most of the nodes"},
		"silent":       {func(c *condition) { c.jetStream = errors.New("timeout") }, "jetstream_silent!", "ok", false, "timeout"},
		"refusing":     {func(c *condition) { c.full = full }, "disk_low!", "disk_low", true, "The disk is nearly full (1 MiB free). New work is refused; what was accepted goes on."},
		"holding":      {func(c *condition) { c.full = &hold }, "disk_low!", "disk_low", true, "nothing new is begun"},
		"clock":        {func(c *condition) { c.clock = errors.New("it is ahead") }, "clock_implausible!", "clock_implausible", false, "It is ahead."},
		"lagging":      {func(c *condition) { c.lag = MaxReadyLag + 1 }, "behind", "ok", false, "10001 events"},
		"far behind":   {func(c *condition) { c.lag = MaxLag + 1 }, "behind!", "behind", false, "100001 events"},
		"queue":        {func(c *condition) { c.queued, c.maxQueue = 80, 100 }, "queue_limit", "ok", true, "80 items wait; max_queued is 100. At the limit submissions are refused"},
		"queue almost": {func(c *condition) { c.queued, c.maxQueue = 99, 100 }, "queue_limit", "ok", true, ""},
		"queue full":   {func(c *condition) { c.queued, c.maxQueue = 100, 100 }, "queue_limit!", "ok", true, "Now submissions are refused (queue_full)."},
		"no limit":     {func(c *condition) { c.queued = 100 }, "", "ok", true, ""},
		"intake": {func(c *condition) { c.limits = []fill{{wire.AlarmIntake, 1019 << 20, 1 << 30}} }, "intake_limit!", "ok", true,
			"1019 MiB of plain publishes wait to be decided; the intake holds 1 GiB. Now publishers get errors."},
		"strangers": {func(c *condition) { c.strange, c.strangest = 3, 17 }, "foreign_messages", "ok", true, "3 messages since this process started, the last with the sequence 17."},
		"the gravest first": {func(c *condition) {
			c.lag, c.full, c.limits = MaxReadyLag+1, full, []fill{{wire.AlarmAck, 90, 100}, {wire.AlarmDocuments, 100, 100}}
		}, "disk_low! documents_limit! ack_limit behind", "disk_low", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := well
			tc.change(&c)
			var codes []string
			for _, a := range c.alarms() {
				if !slices.Contains(wire.AlarmCodes, a.Code) || a.Action == "" || !strings.HasSuffix(a.Message, ".") && !strings.HasSuffix(a.Message, ").") {
					t.Errorf("not an alarm that can be shown: %+v", a)
				}
				code := a.Code
				if a.Severity == wire.AlarmCritical {
					code += "!"
				}
				codes = append(codes, code)
			}
			if got := strings.Join(codes, " "); got != tc.codes {
				t.Fatalf("the alarms are %q, not %q", got, tc.codes)
			}
			if len(codes) > 0 && !strings.Contains(c.alarms()[0].Message, tc.says) {
				t.Errorf("the first says %q, not %q", c.alarms()[0].Message, tc.says)
			}
			if c.status() != tc.status || c.readiness().Ready != tc.ready {
				t.Errorf("health is %q, ready %v; want %q, %v", c.status(), c.readiness().Ready, tc.status, tc.ready)
			}
		})
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 256 << 20: "256 MiB", 3 << 29: "1.5 GiB", 1<<40 - 1: "1023.9 GiB", 1 << 62: "4194304 TiB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is written %q, not %q", n, got, want)
		}
	}
}

// Who asks the engine for its figures hears of what keeps it from working.
func TestStatsTellOfAlarms(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxQueued = 1 })
	if st := ask[wire.StatsReply](r, wire.APIStats, wire.StatsRequest{}); st.Alarms == nil || len(st.Alarms) != 0 {
		t.Fatalf("an engine that works raises %+v", st.Alarms)
	}
	sub := ask[wire.Submitted](r, wire.APISubmit, wire.Submit{Type: "email"})
	st := ask[wire.StatsReply](r, wire.APIStats, wire.StatsRequest{MinPosition: sub.Position})
	if len(st.Alarms) != 1 || st.Alarms[0].Code != wire.AlarmQueue || st.Alarms[0].Severity != wire.AlarmCritical {
		t.Fatalf("a full queue raises %+v", st.Alarms)
	}
}

// Who gives up asking leaves nothing behind that others take for JetStream's answer.
func TestAnAskerThatGivesUpRaisesNoAlarm(t *testing.T) {
	r := newRig(t, nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.svc.askJetStream(gone, true); err == nil {
		t.Fatal("JetStream was asked under a context that has ended")
	}
	if _, err := r.svc.askJetStream(t.Context(), true); err != nil {
		t.Error(err)
	}
}

// Messages in the log that no engine wrote are counted once each, and told for a while.
func TestForeignMessagesAreCounted(t *testing.T) {
	var f foreign
	f.seq = 3 // those up to it were there before the process
	begun := time.Now()
	for n, seq := range []uint64{2, 3, 5, 5, 4, 7, 7} {
		if new := f.note(seq, begun); new != (n == 2 || n == 5) {
			t.Errorf("message %d counts: %t", seq, new)
		}
	}
	if n, last := f.lately(begun.Add(foreignFor)); n != 2 || last != 7 {
		t.Errorf("%d messages, the last is %d", n, last)
	}
	if n, _ := f.lately(begun.Add(foreignFor + 1)); n != 0 {
		t.Errorf("%d messages, long after the last", n)
	}
}
