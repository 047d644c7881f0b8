package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// flowTerms adds what a submission may say of others.
func (c *chaos) flowTerms(s *core.Submit) {
	s.DedupPolicy = []events.DedupPolicy{"", events.DedupDistinct, events.DedupSupersede, events.DedupDefer}[c.rng.IntN(4)]
	switch c.rng.IntN(6) {
	case 0:
		window := time.Duration(c.rng.IntN(60)) * time.Second
		s.DedupWindow = &window
	case 1:
		s.ExpiresAt = c.at.Add(time.Duration(60+c.rng.IntN(60)) * time.Second)
	case 2:
		for range min(len(c.accepted), 2) {
			s.After = append(s.After, c.accepted[c.rng.IntN(len(c.accepted))])
		}
		s.AfterPolicy = []events.AfterPolicy{"", events.AfterRun}[c.rng.IntN(2)]
	}
}

// sayOne has a run spawn, snooze, or tell how far it is. Runs that have ended so
// are forgotten, once that was answered.
func (c *chaos) sayOne(h *simRun) {
	run := core.Run{ID: h.id, Token: h.token, Worker: events.WorkerID(h.worker)}
	var cmd core.Command
	switch c.rng.IntN(5) {
	case 4:
		cmd = core.Park{Run: run, For: time.Duration(1+c.rng.IntN(20)) * time.Second, Wait: events.WaitTerms{Names: []string{"go"}, Then: events.WaitContinue}}
	case 0, 1:
		sp := core.Spawn{Run: run, Continues: c.rng.IntN(2) == 0, Policy: []events.ChildPolicy{"", events.ChildContinue}[c.rng.IntN(2)]}
		it, err := c.l.state.Item(run.ID) // nil: it has ended otherwise, and been pruned
		c.ok(err)
		if it != nil && it.Relations != nil && (!it.Relations.Parent.IsZero() || it.Relations.Spawns > 0) && c.rng.IntN(3) > 0 {
			return // or trees would grow for ever
		}
		for range 1 + c.rng.IntN(3) {
			kid := core.Submit{Type: "email", NewID: c.newID()}
			if c.rng.IntN(3) == 0 {
				kid.DedupKey = "1"
			}
			sp.Children = append(sp.Children, kid)
		}
		cmd = sp
	case 2:
		cmd = core.Snooze{Run: run, Delay: time.Duration(1+c.rng.IntN(20)) * time.Second}
	case 3:
		if c.rng.IntN(2) == 0 {
			cmd = core.SaveCheckpoint{Run: run, Checkpoint: []byte(`{"at":1}`)}
		} else {
			cmd = core.ReportProgress{Run: run, Percent: c.rng.IntN(101)}
		}
	}
	if out := c.say(cmd, run.Token); out == nil || !endsRun(cmd) {
		return
	}
	c.forget(h)
}
