package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// flowTerms draws what a submission may say of others.
func (s *sim) flowTerms(c *Submit) {
	c.DedupPolicy = pick(s, "dedup policy", events.DedupPolicy(""), "", events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer)
	if s.chance("window", 20) {
		w := pick(s, "dedup window", 0, time.Minute, 31*24*time.Hour)
		c.DedupWindow = &w
	}
	if len(s.ids) > 0 && s.chance("after", 25) {
		for range pick(s, "after how many", 1, 1, 2, 3) {
			c.After = append(c.After, s.anID())
		}
		c.AfterPolicy = pick(s, "after policy", events.AfterPolicy(""), events.AfterCancel, events.AfterDead, events.AfterRun, events.AfterRun)
	}
	if s.chance("expires", 20) {
		c.ExpiresAt = s.now.Add(pick(s, "expires in", -time.Second, time.Second, time.Minute))
	}
	if batch := s.family("batch", isBatch); !batch.IsZero() && s.chance("in a batch", 30) {
		c.Batch = batch
	}
	if s.chance("scored", 5) {
		score := pick(s, "score", time.Hour, -time.Minute)
		c.Score = &score
	}
	if len(s.ids) > 0 && s.chance("judged", 10) {
		c.Verdict = &events.Verdict{Policy: pick(s, "verdict", events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer), Canonical: s.anID(), Source: "hook"}
	}
}

func (s *sim) flowCommand() Command {
	r := s.run()
	switch pick(s, "flow", 0, 0, 0, 1, 2, 3, 4, 5, 5, 5) {
	case 0:
		return s.spawn(r)
	case 1:
		return Snooze{Run: r, Delay: pick(s, "snooze", 0, time.Second, time.Minute), Reason: pick(s, "reason", "", "later")}
	case 2:
		return ReportProgress{Run: r, Percent: pick(s, "percent", 0, 50, 100, 101), Message: pick(s, "message", "", "half \xff")}
	case 3:
		return SaveCheckpoint{Run: r, Checkpoint: json.RawMessage(pick(s, "checkpoint", "", ` {"at" : "<"} `, "[1,2"))}
	case 5:
		return s.partsCommand(r)
	}
	return FollowUp{ID: s.anID()}
}

func (s *sim) spawn(r Run) Command {
	c := Spawn{Run: r, Continues: s.chance("continues", 60), Policy: pick(s, "child policy", events.ChildPolicy(""), events.ChildFail, events.ChildContinue, events.ChildContinue)}
	if c.Continues {
		c.Continuation = pick(s, "continuation", "", "gather")
	}
	for range pick(s, "children", 0, 1, 2, 2, 3) {
		kid := s.draft()
		if s.chance("sound child", 90) { // one that is refused refuses all
			kid.Type, kid.Params, kid.MaxAttempts, kid.Timeout, kid.AvailableAt, kid.ExpiresAt = pick(s, "child type", events.Type("email"), "call", "sms"), nil, 0, 0, time.Time{}, time.Time{}
			kid.DedupWindow = nil
			if kid.Priority != nil {
				kid.Priority = nil
			}
		}
		if n := len(c.Children); n > 0 && s.chance("after a sibling", 30) {
			kid.After = []events.ID{c.Children[n-1].NewID}
		}
		c.Children = append(c.Children, kid)
	}
	return c
}

// noteFollowUps takes what the live state says, and sees to it that it has
// said all.
func (s *sim) noteFollowUps() {
	for _, id := range s.live.TakeFollowUps() {
		s.follow = appendOnce(s.follow, id)
	}
	for id, e := range present(s.oracle) {
		if e.cur.NeedsFollowUp() && !slices.Contains(s.follow, id) && !e.cur.Relations.Unmade() && !s.busy[id] { // else an errand is on its way
			s.t.Fatalf("nobody was told that %+v %+v needs a follow-up", e.cur, relationsOf(e.cur))
		}
	}
}

// findFollowUps finds them anew, as a new owner does.
func (s *sim) findFollowUps() {
	s.live.TakeFollowUps()
	s.follow = nil
	for id, e := range present(s.oracle) {
		if e.cur.NeedsFollowUp() {
			s.follow = append(s.follow, id)
		}
	}
	slices.SortFunc(s.follow, compareIDs)
}

// someFollowUps are decided right behind their cause, mostly.
func (s *sim) someFollowUps(c Command) {
	if _, is := c.(FollowUp); !is && len(s.follow) > 0 && s.chance("follow up", 70) {
		s.doFollowUps()
	}
}

func (s *sim) doFollowUps() {
	for n := 0; len(s.follow) > 0; n++ {
		id := s.follow[0]
		before := len(s.log)
		s.do(FollowUp{ID: id})
		if len(s.log) == before {
			s.follow = s.follow[1:]
			if it := s.oracle.items[id].cur; it != nil && it.NeedsFollowUp() && !s.errand(it) {
				s.t.Fatalf("a follow-up does nothing for %+v %+v", it, relationsOf(it))
			}
		}
		if n > 10_000 {
			s.t.Fatal("follow-ups without end")
		}
	}
}

// checkRelations: what an item knows of others is so.
func (s *sim) checkRelations() {
	waiters := map[events.ID][]events.ID{}
	type count struct{ live, failed int }
	kids := map[events.ID]count{}
	for id, e := range present(s.oracle) {
		it, r := e.cur, relationsOf(e.cur)
		for _, of := range r.Waits {
			waiters[of] = append(waiters[of], id)
		}
		if it.State != events.StateWaiting && (len(r.Waits) > 0 || r.Spawned) {
			s.t.Fatalf("it does not wait: %+v %+v", it, r)
		}
		if it.HasCheckpoint && it.State.Terminal() {
			s.t.Fatalf("it has ended with a checkpoint: %+v", it)
		}
		if p := s.oracle.items[r.Parent]; p != nil && p.cur != nil && relationsOf(p.cur).Spawns == r.Spawn {
			n := kids[r.Parent]
			if live(it.State) {
				n.live++
			} else if it.State != events.StateCompleted && it.State != events.StateMerged {
				n.failed++
			}
			kids[r.Parent] = n
		}
	}
	for id, e := range present(s.oracle) {
		r := relationsOf(e.cur)
		want := waiters[id]
		slices.SortFunc(want, compareIDs)
		got, err := s.live.Waiters(id, events.ID{}, 1000)
		s.must(err)
		if r.Awaited != len(want) || !slices.Equal(got, want) {
			s.t.Fatalf("%s is awaited by %v, counts %d, and the live state says %v", id, want, r.Awaited, got)
		}
		left := slices.ContainsFunc(s.kids(id, &r), func(child events.ID) bool { // pruned, or replayed once the parent no longer waited
			c := s.oracle.items[child]
			return c == nil || c.cur == nil || relationsOf(c.cur).Parent != id || relationsOf(c.cur).Spawn != r.Spawns
		})
		left = left || r.Batch && len(s.kids(id, &r)) < r.Made
		if n := kids[id]; r.Live != n.live || r.Failed < n.failed || r.Failed > n.failed && !left {
			s.t.Fatalf("%s has %d live children and %d that failed: %+v", id, n.live, n.failed, r)
		}
		for _, kind := range events.DocKinds {
			was, err := s.oracle.Document(kind, id)
			s.must(err)
			now, err := s.live.Document(kind, id)
			s.must(err)
			if string(was) != string(now) {
				s.t.Fatalf("document %c of %s is %q, and lives as %q", kind, id, was, now)
			}
		}
	}
}

// checkNobodyIsStuck: once all follow-ups are done, each item that waits does
// so, in the end, for one that does not.
func (s *sim) checkNobodyIsStuck() {
	const under, done = 1, 2
	seen := map[events.ID]int{}
	var visit func(id events.ID) string
	visit = func(id events.ID) string {
		it := s.oracle.items[id].cur
		if it.State != events.StateWaiting || seen[id] == done {
			return ""
		}
		if seen[id] == under {
			ring := fmt.Sprintf("%s waits for itself:", id)
			for of, st := range seen {
				if st == under {
					it := s.oracle.items[of].cur
					ring += fmt.Sprintf("\n%s %s since %d: %+v", of, it.State, it.Seq, relationsOf(it))
				}
			}
			return ring
		}
		seen[id] = under
		r := relationsOf(it)
		if r.Spawned && !r.Complete() {
			seen[id] = done
			return "" // for what is to come
		}
		if it.Wait() != nil {
			seen[id] = done
			return "" // for a signal, or its deadline
		}
		if len(r.Waits) == 0 && r.Live == 0 {
			return fmt.Sprintf("%s waits for nothing", id)
		}
		next := slices.Clone(r.Waits)
		for _, child := range s.kids(id, &r) { // those that were there before are among Waits, if they can be waited for
			if c := s.oracle.items[child]; r.Spawned && c != nil && c.cur != nil && relationsOf(c.cur).Parent == id {
				next = append(next, child)
			}
		}
		for _, n := range next {
			if bad := visit(n); bad != "" {
				return bad
			}
		}
		seen[id] = done
		return ""
	}
	for id, e := range present(s.oracle) {
		if e.cur.NeedsFollowUp() && !e.cur.Relations.Unmade() {
			s.t.Fatalf("%+v %+v needs a follow-up", e.cur, relationsOf(e.cur))
		}
		for _, of := range relationsOf(e.cur).Waits {
			if !live(s.oracle.items[of].cur.State) {
				s.t.Fatalf("%s waits for %s, which has ended", id, of)
			}
		}
		if bad := visit(id); bad != "" {
			s.t.Fatal(bad)
		}
	}
}
