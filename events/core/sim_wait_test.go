package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

// waitStep draws one thing to happen to items that wait, or may come to.
func (s *sim) waitStep() {
	switch rapid.IntRange(0, 19).Draw(s.t, "step of waits") {
	case 0, 1:
		s.do(Submit{Type: "email", NewID: s.freshID(), By: pick(s, "submitter", "", "ada")})
	case 2:
		s.now = s.now.Add(pick(s, "pass", time.Second, 31*time.Second, time.Hour))
	case 3:
		s.project()
	case 4:
		if s.chance("restart", 30) {
			s.restart()
		}
	case 5:
		s.do(s.report())
	case 6:
		s.do(Cancel{ID: s.anID()})
	default:
		s.do(s.waitCommand())
	}
}

// waitCommand draws what concerns waits and signals, and brings items that far.
func (s *sim) waitCommand() Command {
	running := s.one("running", func(it *events.Item) bool { return it.State == events.StateRunning && !it.Worker.Ack() })
	r := s.run()
	if !running.IsZero() && s.chance("a current run", 90) {
		it := s.oracle.items[running].cur
		r = Run{ID: running, Token: it.Token, Worker: it.Worker}
	}
	switch pick(s, "wait step", 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 4, 5, 5, 6, 6, 6, 7, 7, 7) {
	case 0:
		return s.park(r)
	case 1:
		return s.send()
	case 2:
		ready := s.one("ready", func(it *events.Item) bool {
			return it.State == events.StateQueued && !it.AvailableAt.After(s.now) && it.Signals != nil
		})
		if ready.IsZero() {
			ready = s.one("any ready", func(it *events.Item) bool { return it.State == events.StateQueued && !it.AvailableAt.After(s.now) })
		}
		s.tokens++
		s.dispatch[ready] = events.NewToken(1, s.tokens)
		return Claim{ID: ready, Token: s.dispatch[ready], Worker: "w1", Start: true}
	case 3:
		return Complete{Run: r, Strict: s.chance("strict", 30)}
	case 5:
		return GiveToken{Run: r, Name: pick(s, "token name", "go", "go", "pay"), Hash: s.aHash(), For: pick(s, "for", "", "ada", "bob")}
	case 6:
		return s.present()
	case 7:
		return s.answer()
	}
	return Due{NewID: s.freshID(), ID: s.one("waiting for its deadline", func(it *events.Item) bool { return it.Wait() != nil })}
}

func (s *sim) park(r Run) Command {
	w := events.WaitTerms{Then: pick(s, "then", events.WaitContinue, events.WaitContinue, events.WaitContinue, events.WaitFail, events.WaitComplete)}
	for _, name := range []string{"go", "stop", "pay"} {
		if s.chance("waits for "+name, 50) {
			w.Names = append(w.Names, name)
		}
	}
	w.All = len(w.Names) > 0 && s.chance("all", 40)
	if w.Then == events.WaitComplete {
		w.Result = json.RawMessage(pick(s, "wait result", "", `"late"`, "no"))
	}
	c := Park{Run: r, Wait: w, For: pick(s, "wait for", time.Millisecond, time.Minute, time.Hour, 0)}
	if s.chance("asks", 60) {
		c.Ask = s.question()
		if s.chance("for any", 90) {
			if c.Wait.All = false; len(c.Wait.Names) == 0 {
				c.Wait.Names = []string{"go"}
			}
		}
	}
	return c
}

func (s *sim) question() *events.Question {
	q := &events.Question{Title: "Pay?", Text: "*Really*?", Proposal: json.RawMessage(`{"sum": 3}`)}
	q.Choices = pick(s, "choices", nil, nil, []events.Choice{events.ChoiceEdit, events.ChoiceApprove}, []events.Choice{events.ChoiceAnswer})
	q.Form = json.RawMessage(pick(s, "form", "", "", `{"type": "object"}`))
	q.Who = pick(s, "who", events.Answerers{}, events.Answerers{}, events.Answerers{Users: []string{"ada"}}, events.Answerers{NotSubmitter: true, Roles: []string{"operate"}})
	if s.chance("reminds", 50) {
		q.Remind = &events.Remind{Every: events.DurationOf(pick(s, "every", time.Second, 31*time.Second)), Type: "call", Most: pick(s, "most", 0, 1, 2)}
	}
	switch rapid.IntRange(0, 30).Draw(s.t, "question amiss") {
	case 0:
		q.Title = ""
	case 1:
		q.Choices = []events.Choice{"shrug"}
	case 2:
		q.Proposal = json.RawMessage("no")
	case 3:
		q.Remind = &events.Remind{Every: events.Millis(1), Type: "call"}
	case 4:
		q.Remind = &events.Remind{Every: events.Millis(1000), Type: "Bad Type"}
	}
	return q
}

// answer answers a question, mostly one that is open.
func (s *sim) answer() Command {
	c := Answer{ID: s.anID(), Number: pick(s, "number", 0, 0, 1, 2), Who: events.Answerer{Name: pick(s, "who answers", "", "ada", "bob"), Known: s.chance("known", 50)}}
	if asks := s.one("asks something", func(it *events.Item) bool { return it.Wait().Asks() != 0 }); !asks.IsZero() && s.chance("one that is open", 80) {
		c.ID = asks
	}
	if s.chance("an operator", 80) {
		c.Who.Roles = []string{"operate"}
	}
	c.Answer = s.anAnswer(c.ID)
	return c
}

// anAnswer is an answer to what an item asks, mostly one that fits.
func (s *sim) anAnswer(id events.ID) events.Answer {
	if e := s.oracle.items[id]; e != nil && e.cur != nil && s.chance("an answer that fits", 80) { // not pruned
		q, err := s.oracle.Question(e.cur)
		if s.must(err); q != nil {
			a := events.Answer{Choice: pick(s, "choice of it", q.Choices...), Comment: "fine"}
			if q.Fills(a.Choice) {
				a.Value = json.RawMessage(`{"sum": 4}`)
			}
			return a
		}
	}
	return events.Answer{Choice: pick(s, "choice", events.Choices[:]...), Value: json.RawMessage(pick(s, "value", "", "", `{"sum": 4}`, "no")), Comment: pick(s, "comment", "", "fine")}
}

func (s *sim) send() Command {
	id := s.anID()
	if waits := s.one("waiting for a signal", func(it *events.Item) bool { return it.Wait() != nil }); !waits.IsZero() && s.chance("to one that waits", 60) {
		id = waits
	}
	c := Signal{ID: id, Name: pick(s, "signal name", "go", "stop", "pay", "other"), MsgID: pick(s, "signal id", "", "", "m1", "m2")}
	c.Payload = json.RawMessage(pick(s, "signal payload", "", "", `{"n": 1}`, `"<"`, "no"))
	return c
}

func (s *sim) aHash() string {
	return aTokenHash(pick(s, "token", 1, 2, 3))
}

// aTokenHash stands for the hash of a token.
func aTokenHash(n int) string { return fmt.Sprintf("%064x", n) }

// present presents a token, mostly one that there is.
func (s *sim) present() Command {
	c := PresentToken{ID: s.anID(), Hash: s.aHash()}
	if has := s.one("has a token", func(it *events.Item) bool { return len(s.letters.tokens[it.ID]) > 0 }); !has.IsZero() && s.chance("a token that there is", 90) {
		c.ID, c.Hash = has, pick(s, "which", slices.Sorted(maps.Keys(s.letters.tokens[has]))...)
	}
	if asks := s.one("has a link to what it asks", func(it *events.Item) bool {
		w := it.Wait()
		return w.Asks() != 0 && s.letters.links[it.ID][w.Names[0]] != ""
	}); !asks.IsZero() && s.chance("a link", 60) {
		it := s.oracle.items[asks].cur
		c.ID, c.Hash, c.Number = asks, s.letters.links[asks][it.Wait().Names[0]], it.Wait().Ask.Number-pick(s, "another's", 0, 0, 0, 1)
		c.Result, _ = json.Marshal(s.anAnswer(asks)) // of a value that is no JSON: nothing
		return c
	}
	if s.chance("an error", 30) {
		c.Error = &events.SignalError{Code: pick(s, "error code", "", "declined")}
	} else {
		c.Result = json.RawMessage(pick(s, "token result", "", `{"n": 1}`, "no"))
	}
	return c
}

// letter is a signal as the log alone tells of it.
type letter struct {
	number      int
	name, msgID string
}

// letters holds what each item's mailbox must hold, from the events alone: boxes has the
// signals, taken those that a wait has taken.
type letters struct {
	boxes map[events.ID][]letter
	taken map[events.ID][]int
	// tokens has the number of the signal that each token has become, 0 for none yet.
	tokens map[events.ID]map[string]int
	links  map[events.ID]map[string]string // the last link of each name
	asked  map[events.ID]int               // questions
	// answers has the answer to each question, as its signal's number.
	answers map[events.ID]map[int]int
	names   map[events.ID]map[string]string // of the tokens that are links
	reminds map[events.ID][2]int            // the question that was last reminded of, and how often
	asks    map[events.ID]string            // the name of the answer to what an item asks now
	waits   map[events.ID]bool
}

func newLetters() letters {
	return letters{map[events.ID][]letter{}, map[events.ID][]int{}, map[events.ID]map[string]int{}, map[events.ID]map[string]string{}, map[events.ID]int{}, map[events.ID]map[int]int{}, map[events.ID]map[string]string{}, map[events.ID][2]int{}, map[events.ID]string{}, map[events.ID]bool{}}
}

func (l *letters) apply(ev events.Event) {
	switch b := ev.Body.(type) {
	case *events.Created:
		delete(l.boxes, ev.ID)
		delete(l.taken, ev.ID)
		delete(l.tokens, ev.ID)
		delete(l.links, ev.ID)
		delete(l.asked, ev.ID)
		delete(l.answers, ev.ID)
		delete(l.names, ev.ID)
		delete(l.reminds, ev.ID)
	case *events.TokenGiven:
		if l.tokens[ev.ID] == nil {
			l.tokens[ev.ID], l.links[ev.ID], l.names[ev.ID] = map[string]int{}, map[string]string{}, map[string]string{}
		}
		l.tokens[ev.ID][b.Hash] = 0
		if b.For != "" {
			l.links[ev.ID][b.Name], l.names[ev.ID][b.Hash] = b.Hash, b.Name
		}
	case *events.Reminded:
		if was := l.reminds[ev.ID]; b.Number != l.asked[ev.ID] || was[0] == b.Number && was[1] != b.Nth-1 || was[0] != b.Number && b.Nth != 1 || l.answers[ev.ID][b.Number] != 0 {
			panic("a reminder of what is not asked, or out of order")
		}
		l.reminds[ev.ID] = [2]int{b.Number, b.Nth}
	case *events.Signalled:
		if b.Answer != 0 {
			if b.Answer != l.asked[ev.ID] || l.answers[ev.ID][b.Answer] != 0 {
				panic("what is not asked, or was answered, is answered")
			}
			if l.answers[ev.ID] == nil {
				l.answers[ev.ID] = map[int]int{}
			}
			l.answers[ev.ID][b.Answer] = b.Number
			for hash, name := range l.names[ev.ID] { // the links have done their work
				if name == b.Name && l.tokens[ev.ID][hash] == 0 {
					l.tokens[ev.ID][hash] = b.Number
				}
			}
		} else if b.Token != "" {
			if l.tokens[ev.ID][b.Token] != 0 {
				panic("a token was presented twice")
			}
			l.tokens[ev.ID][b.Token] = b.Number
		}
		l.boxes[ev.ID] = append(l.boxes[ev.ID], letter{b.Number, b.Name, b.MsgID})
	case *events.Queued:
		if b.Reason == string(events.WaitSignalled) || b.Reason == string(events.WaitTimedOut) {
			for _, s := range l.boxes[ev.ID] {
				if l.asks[ev.ID] == s.name && slices.Contains(b.Signals, s.number) && l.answers[ev.ID][l.asked[ev.ID]] != s.number {
					panic("a signal was taken for an answer")
				}
			}
			l.over(ev.ID)
			l.taken[ev.ID] = b.Signals
		}
		delete(l.waits, ev.ID)
	case *events.Parked:
		if delete(l.asks, ev.ID); b.Ask != nil {
			l.asks[ev.ID] = b.Names[0]
			if l.asked[ev.ID]++; b.Ask.Number != l.asked[ev.ID] {
				panic("the questions are not numbered one by one")
			}
		}
		l.settle(ev.ID)
		l.waits[ev.ID] = true
	case *events.Completed:
		l.settle(ev.ID)
		l.ends(ev.ID)
	case *events.Dead, *events.Cancelled:
		l.ends(ev.ID)
	case *events.Spawned:
		if b.Part == 0 && !b.Batch {
			l.settle(ev.ID)
		}
	}
}

// ends ends the question of an item that ends while it waits.
func (l *letters) ends(id events.ID) {
	if l.waits[id] {
		l.over(id)
	}
	delete(l.waits, id)
}

// over ends the links to a question that is over.
func (l *letters) over(id events.ID) {
	if name := l.asks[id]; name != "" && l.answers[id][l.asked[id]] == 0 {
		for hash, of := range l.names[id] {
			if of == name && l.tokens[id][hash] == 0 {
				l.tokens[id][hash] = -1
			}
		}
	}
}

// settle lets go of what a run that has ended with an outcome was given.
func (l *letters) settle(id events.ID) {
	l.boxes[id] = slices.DeleteFunc(l.boxes[id], func(s letter) bool { return slices.Contains(l.taken[id], s.number) })
	delete(l.taken, id)
}

// checkMailboxes: each signal that was accepted is kept until the outcome of a run that
// was given it, is counted, and no item waits for what has come.
func (s *sim) checkMailboxes() {
	for id, e := range present(s.oracle) {
		it := e.cur
		box, err := s.oracle.mailbox(it)
		s.must(err)
		var got []letter
		bytes := 0
		for i := range box.Unread {
			l := &box.Unread[i]
			got = append(got, letter{l.Number, l.Name, l.MsgID})
			bytes += l.Size()
		}
		if !slices.Equal(got, s.letters.boxes[id]) {
			s.t.Fatalf("the mailbox of %s holds %v, want %v", id, got, s.letters.boxes[id])
		}
		tokens, open := map[string]int{}, 0
		for _, t := range box.Tokens {
			tokens[t.Hash] = t.Signal
			if t.Open() {
				open++
			} else if t.Signal == 0 {
				tokens[t.Hash] = -1
			}
		}
		if !maps.Equal(tokens, s.letters.tokens[id]) || it.Signals != nil && it.Signals.Tokens != open {
			s.t.Fatalf("the tokens of %s are %v, and it counts %+v; want %v", id, box.Tokens, it.Signals, s.letters.tokens[id])
		}
		if sig := it.Signals; sig != nil && (sig.Unread != len(got) || sig.Bytes != bytes) {
			s.t.Fatalf("%s counts %+v, and holds %d signals of %d bytes", id, sig, len(got), bytes)
		}
		if w := it.Wait(); w != nil {
			if taken, whole := takes(&w.WaitTerms, w.Asks(), box.Unread); whole {
				s.t.Fatalf("%s waits for %v, and signals %v have come", id, w.Names, taken)
			}
			if n := w.Asks(); n != 0 {
				q, err := s.oracle.Question(it)
				if s.must(err); q == nil || q.Number != n || q.Title != w.Ask.Title || box.Answer(n) != nil {
					s.t.Fatalf("%s asks %d, and its question is %+v, answered %+v", id, n, q, box.Answer(n))
				}
			}
			if w.Until.IsZero() {
				s.t.Fatalf("%s waits for ever: %+v", id, w)
			}
		}
		answers := map[int]int{}
		for _, a := range box.Answered {
			answers[a.Number] = a.Signal
		}
		if !maps.Equal(answers, s.letters.answers[id]) || it.Signals != nil && it.Signals.Asked != s.letters.asked[id] {
			s.t.Fatalf("the answers of %s are %+v of %+v; want %v of %d", id, box.Answered, it.Signals, s.letters.answers[id], s.letters.asked[id])
		}
		for i := range box.Unread {
			if id := box.Unread[i].MsgID; id != "" && slices.ContainsFunc(box.Unread[:i], func(l events.Signal) bool { return l.MsgID == id }) {
				s.t.Fatalf("message %s has come twice: %v", id, got)
			}
		}
	}
}
