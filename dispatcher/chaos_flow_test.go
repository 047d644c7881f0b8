package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
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
	if c.rng.IntN(2) == 0 {
		c.waitOne(h)
		return
	}
	run := core.Run{ID: h.id, Token: h.token, Worker: events.WorkerID(h.worker)}
	var cmd core.Command
	switch c.rng.IntN(4) {
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

// waitOne has a run make a token, or end in a wait.
func (c *chaos) waitOne(h *simRun) {
	r := h.report("")
	c.post.ofRun(&r)
	asked := c.l.pipe.appended
	c.tell(func(a []wire.Reported) {
		if !a[0].OK && a[0].Error.Code == events.CodeUnavailable {
			return
		}
		if a[0].OK {
			c.post.heard(r)
			if t := r.WaitToken; t != nil {
				c.told = append(c.told, mailTold{cmd: core.GiveToken{Run: core.Run{ID: h.id}, Hash: t.Hash}, asked: asked, now: c.l.pipe.appended})
				return
			}
		}
		c.forget(h)
	}, r)
}

// letter has somebody send a signal, answer, present a token, or start an item or wake it; or two
// at once.
func (c *chaos) letter() {
	cmd, err := c.post.next(c.l.state, c.accepted)
	c.ok(err)
	cmds := []core.Command{cmd}
	if c.rng.IntN(3) == 0 {
		cmds = append(cmds, c.post.another(cmd))
	}
	asked := c.l.pipe.appended
	c.ask(func(out []Outcome) {
		for i, o := range out {
			if events.CodeOf(o.Err) == events.CodeUnavailable {
				continue
			}
			c.told = append(c.told, mailTold{cmd: cmds[i], repeat: o.Decision.Repeat, err: o.Err, asked: asked, now: c.l.pipe.appended})
			if _, ok := cmds[i].(core.Submit); ok && o.Err == nil {
				c.accepted = append(c.accepted, o.Decision.ID)
			}
		}
	}, cmds...)
}

// lettersAsLogged compares each answer about signals, tokens and questions with the log.
func (c *chaos) lettersAsLogged(m *mail) error {
	for _, a := range c.told {
		if err := m.judge(a); err != nil {
			return err
		}
	}
	for _, given := range c.given {
		if err := given(m); err != nil {
			return err
		}
	}
	return m.atEnd(c.l.state)
}
