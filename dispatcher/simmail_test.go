package dispatcher

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// mail models signals, tokens and questions from the log alone. It checks each event of the log,
// and each answer that somebody was given.
type mail struct {
	lives   map[events.ID][]*mailbox // oldest first
	came    map[string][]events.ID   // the items that the signal of a message id has come to
	runs    map[events.Token][]int   // the signals that each run was given
	touched []*mailbox               // in this frame
	counts  mailCounts
}

// mailCounts say how much of it there was.
type mailCounts struct{ signals, first, given, presented, asked, decided, reminded, repeats, second int }

func (n *mailCounts) add(m mailCounts) {
	n.signals, n.first, n.given, n.presented, n.asked = n.signals+m.signals, n.first+m.first, n.given+m.given, n.presented+m.presented, n.asked+m.asked
	n.decided, n.reminded, n.repeats, n.second = n.decided+m.decided, n.reminded+m.reminded, n.repeats+m.repeats, n.second+m.second
}

// mailbox is an item in one of its lives.
type mailbox struct {
	id              events.ID
	created, pruned events.Seq
	alive           events.Seq // since when it has not ended; 0: it has
	into            events.ID
	letters         []*letter // each is the number of its place
	taken           []int
	tokens          map[string]*aToken
	asked           []*aQuestion // the same
	wait            *events.Parked
}

type letter struct {
	*events.Signalled
	at   events.Seq
	used bool
}

type aToken struct {
	*events.TokenGiven
	given, over events.Seq
	answer      int    // the letter that it has become; 0: none
	question    int    // of a link: what that was about
	digest      string // of what was presented
}

type aQuestion struct {
	opened, over, answered events.Seq
	name, by, comment      string
	choice                 events.Choice
	reminded               int
}

func newMail() *mail {
	return &mail{lives: map[events.ID][]*mailbox{}, came: map[string][]events.ID{}, runs: map[events.Token][]int{}}
}

// box is the present life of an item, or its last.
func (m *mail) box(id events.ID) *mailbox {
	if lives := m.lives[id]; len(lives) > 0 {
		return lives[len(lives)-1]
	}
	return nil
}

// canonical is the item, or that which it was merged into.
func (m *mail) canonical(id events.ID) events.ID {
	for b := m.box(id); b != nil && !b.into.IsZero(); b = m.box(id) {
		id = b.into
	}
	return id
}

func (m *mail) event(ev events.Event) error {
	if _, made := ev.Body.(*events.Created); made {
		m.lives[ev.ID] = append(m.lives[ev.ID], &mailbox{id: ev.ID, created: ev.Seq, alive: ev.Seq, tokens: map[string]*aToken{}})
	}
	b := m.box(ev.ID)
	if b == nil {
		return nil
	}
	m.touched = append(m.touched, b)
	switch body := ev.Body.(type) {
	case *events.Pruned:
		b.pruned = ev.Seq
	case *events.Merged:
		b.into, b.alive = body.Into, 0
	case *events.Replayed:
		b.alive = ev.Seq
	case *events.Claimed:
		m.runs[body.Token] = b.taken
	case *events.TokenGiven:
		m.counts.given++
		if b.tokens[body.Hash] != nil {
			return fmt.Errorf("token %s is given twice", body.Hash)
		}
		b.tokens[body.Hash] = &aToken{TokenGiven: body, given: ev.Seq}
	case *events.Signalled:
		return m.signalled(b, ev.Seq, body)
	case *events.Reminded:
		m.counts.reminded++
		q := b.open()
		if q == nil || body.Number != len(b.asked) || body.Nth != q.reminded+1 {
			return fmt.Errorf("reminder %d of question %d, of %d", body.Nth, body.Number, len(b.asked))
		}
		q.reminded++
	case *events.Queued:
		if body.Reason != string(events.WaitSignalled) && body.Reason != string(events.WaitTimedOut) {
			return nil
		}
		taken, whole := b.takes()
		if b.wait == nil || !slices.Equal(taken, body.Signals) || whole != (body.Reason == string(events.WaitSignalled)) {
			return fmt.Errorf("its wait %+v ends as %s with %v: it would take %v", b.wait, body.Reason, body.Signals, taken)
		}
		b.taken = taken
		b.over(ev.Seq)
	case *events.Parked:
		b.settle()
		if b.wait = body; body.Ask != nil {
			m.counts.asked++
			b.asked = append(b.asked, &aQuestion{opened: ev.Seq, name: body.Names[0]})
			if body.Ask.Number != len(b.asked) {
				return fmt.Errorf("question %d is asked after %d others", body.Ask.Number, len(b.asked)-1)
			}
		}
	case *events.Spawned:
		if body.Part == 0 && !body.Batch {
			b.settle()
		}
	case *events.Completed:
		b.alive = 0
		b.over(ev.Seq)
		b.settle()
		if n := len(b.unread()); body.Unread != n {
			return fmt.Errorf("it has %d unread signals, and says %d", n, body.Unread)
		}
	case *events.Dead, *events.Cancelled:
		b.alive = 0
		b.over(ev.Seq)
	}
	return nil
}

// signalled takes a signal: as the log has it, each comes once.
func (m *mail) signalled(b *mailbox, at events.Seq, s *events.Signalled) error {
	m.counts.signals++
	if s.MsgID != "" && b.has(s.MsgID) != 0 {
		return fmt.Errorf("signal %s comes a second time", s.MsgID)
	}
	if b.letters = append(b.letters, &letter{Signalled: s, at: at}); s.Number != len(b.letters) {
		return fmt.Errorf("signal %d comes after %d others", s.Number, len(b.letters)-1)
	}
	m.came[s.MsgID] = append(m.came[s.MsgID], b.id)
	if sub, _, first := strings.Cut(s.MsgID, "/"); first {
		m.counts.first++
		id, err := events.ParseID(sub)
		if err != nil {
			return err
		}
		if to, n := m.canonical(id), len(m.came[s.MsgID]); to != b.id || n > len(m.lives[id]) {
			return fmt.Errorf("the signal of submission %s comes for the %dth time, after %d submissions; it is, or was merged into, %s", id, n, len(m.lives[id]), to)
		}
	}
	t := b.tokens[s.Token]
	switch {
	case s.Answer != 0:
		m.counts.decided++
		q := b.open()
		var a events.Answer
		if err := json.Unmarshal(s.Payload, &a); err != nil {
			return err
		}
		if q == nil || s.Answer != len(b.asked) || q.answered != 0 || q.name != s.Name || s.Token != "" && (t == nil || t.For != a.By) {
			return fmt.Errorf("question %d is answered, of %d, which are %+v", s.Answer, len(b.asked), q)
		}
		q.answered, q.by, q.choice, q.comment = at, a.By, a.Choice, a.Comment
		b.endLinks(at)
	case s.Token != "":
		m.counts.presented++
		if t == nil || t.over != 0 || t.Name != s.Name || t.For != "" {
			return fmt.Errorf("token %s is presented: it is %+v", s.Token, t)
		}
		t.over, t.answer, t.digest = at, s.Number, events.DigestAnswer(s.Payload, s.Error)
	}
	return nil
}

// open is the question that the item asks; nil: none.
func (b *mailbox) open() *aQuestion {
	if b.wait == nil || b.wait.Ask == nil {
		return nil
	}
	return b.asked[len(b.asked)-1]
}

// endLinks ends the links to the question that is asked.
func (b *mailbox) endLinks(at events.Seq) {
	for _, t := range b.tokens {
		if t.For != "" && t.Name == b.wait.Names[0] && t.over == 0 {
			t.over, t.question = at, len(b.asked)
		}
	}
}

// over ends the item's wait.
func (b *mailbox) over(at events.Seq) {
	if q := b.open(); q != nil {
		q.over = at
		b.endLinks(at)
	}
	b.wait = nil
}

func (b *mailbox) unread() (n []int) {
	for _, l := range b.letters {
		if !l.used {
			n = append(n, l.Number)
		}
	}
	return n
}

// settle uses up what the run was given that has ended with an outcome.
func (b *mailbox) settle() {
	for _, n := range b.taken {
		b.letters[n-1].used = true
	}
	b.taken = nil
}

// takes returns the signals that the item's wait takes, and whether they end it.
func (b *mailbox) takes() (taken []int, whole bool) {
	if b.wait == nil {
		return nil, false
	}
	w := b.wait
	for _, name := range w.Names {
		i := slices.IndexFunc(b.letters, func(l *letter) bool {
			return !l.used && l.Name == name && (w.Ask == nil || name != w.Names[0] || l.Answer == w.Ask.Number)
		})
		if i >= 0 {
			taken = append(taken, i+1)
		}
	}
	if slices.Sort(taken); !w.All && len(taken) > 0 {
		return taken[:1], true
	}
	return taken, len(taken) > 0 && len(taken) == len(w.Names)
}

// frame is told of a frame's end: nothing waits for what has come.
func (m *mail) frame() error {
	for _, b := range m.touched {
		if taken, whole := b.takes(); whole {
			return fmt.Errorf("%s waits for %v, and signals %v have come", b.id, b.wait.Names, taken)
		}
	}
	m.touched = m.touched[:0]
	return nil
}

// atEnd compares with the fold of the log, when everything has ended.
func (m *mail) atEnd(state *core.State) error {
	for id := range m.lives {
		b := m.box(id)
		if b.pruned != 0 {
			continue
		}
		if b.wait != nil {
			return fmt.Errorf("%s still waits for %v", id, b.wait.Names)
		}
		var box events.Mailbox
		doc, err := state.Document(events.DocMailbox, id)
		if err == nil && doc != nil {
			err = json.Unmarshal(doc, &box)
		}
		if err != nil {
			return err
		}
		var got []int
		for i := range box.Unread {
			got = append(got, box.Unread[i].Number)
		}
		if want := b.unread(); !slices.Equal(got, want) {
			return fmt.Errorf("%s has the unread signals %v, want %v", id, got, want)
		}
		for hash, t := range b.tokens {
			if has := box.Token(hash); has == nil || has.Open() != (t.over == 0) {
				return fmt.Errorf("%s has the token %+v, want %+v", id, has, t)
			}
		}
	}
	return nil
}

// started holds what a run was given against the log.
func (m *mail) started(token events.Token, waited *wire.EndedWait) error {
	var given []events.Signal
	if waited != nil && len(waited.Signals) > 0 {
		if err := json.Unmarshal(waited.Signals, &given); err != nil {
			return err
		}
	}
	var got []int
	for i := range given {
		got = append(got, given[i].Number)
	}
	if want := m.runs[token]; !slices.Equal(got, want) {
		return fmt.Errorf("the run under %s was given the signals %v: the log says %v", token, got, want)
	}
	return nil
}

// mailTold is an answer to a command.
type mailTold struct {
	cmd    core.Command
	repeat bool
	err    error
	asked  events.Seq // behind all that was in the log when the command was given
	now    events.Seq // the same, of the answer
}

// judge says what is wrong with an answer. What has been, the log had when it was asked: so a
// repeat is told the same as before, and nobody is told what was never true.
func (m *mail) judge(a mailTold) error {
	var truth, before bool // what the command is for has come, and had when it was asked
	var other bool         // another has, which excludes it
	var must bool          // it could not be refused so
	code := events.CodeOf(a.err)
	note := func(b *mailbox, at events.Seq) {
		truth = truth || at != 0 && at <= a.now
		before = before || at != 0 && at <= a.asked && b.keeps(a)
	}
	switch c := a.cmd.(type) {
	case core.Signal:
		for _, b := range m.lives[c.ID] {
			note(b, b.has(c.MsgID))
			must = must || b.keeps(a) && (code == events.CodeNotFound || code == events.CodeEnded && b.lives(a))
		}
	case core.Submit:
		if c.Signal == nil || code == events.CodeIDConflict && len(m.lives[c.ID]) > 1 {
			return nil // in the latter case another submission has had the id since
		}
		for _, id := range m.came[c.Signal.MsgID] {
			for _, b := range m.lives[id] {
				at := b.has(c.Signal.MsgID)
				truth = truth || at != 0 && at <= a.now
				before = before || at != 0 && at <= a.asked && b.keeps(a) && m.box(c.ID).keeps(a)
			}
		}
	case core.GiveToken:
		for _, b := range m.lives[c.ID] {
			t := b.tokens[c.Hash]
			truth = truth || t != nil && t.given <= a.now
		}
	case core.PresentToken:
		for _, b := range m.lives[c.ID] {
			t := b.tokens[c.Hash]
			if t == nil || t.given > a.asked {
				continue
			}
			same, at := t.digest == events.DigestAnswer(c.Result, c.Error), t.over
			if t.For != "" {
				at = 0
				if n := t.question; n > 0 {
					same, at = b.answered(n, t.For, answerOf(c), a.err == nil), b.asked[n-1].answered
				}
				if n := c.Number; n > 0 && n <= len(b.asked) && b.asked[n-1].name == t.Name {
					must = must || b.keeps(a) && (t.over == 0 || t.over > a.now) && b.asked[n-1].isOpen(a)
				}
			}
			if same {
				note(b, at)
			} else if at != 0 {
				other = other || at <= a.now
				must = must || b.keeps(a) && at <= a.asked && code != events.CodeAlreadyCompleted
			}
			must = must || b.keeps(a) && (code == events.CodeNotFound || code == events.CodeEnded && b.lives(a))
		}
	case core.Answer:
		for _, b := range m.lives[c.ID] {
			must = must || b.keeps(a) && code == events.CodeNotFound
			if c.Number > len(b.asked) {
				continue
			}
			q := b.asked[c.Number-1]
			if b.answered(c.Number, c.Who.Name, c.Answer, a.err == nil) {
				note(b, q.answered)
			} else if q.answered != 0 {
				other = other || q.answered <= a.now
				must = must || b.keeps(a) && q.answered <= a.asked && code != events.CodeAlreadyCompleted
			}
			must = must || b.keeps(a) && q.isOpen(a)
		}
	default:
		return nil
	}
	switch {
	case a.err == nil && !truth:
		return fmt.Errorf("%T %+v is accepted (a repeat: %v), and the log does not have it", a.cmd, a.cmd, a.repeat)
	case a.err != nil && before:
		return fmt.Errorf("%T %+v is in the log, and its repeat is refused: %w", a.cmd, a.cmd, a.err)
	case a.err != nil && must:
		return fmt.Errorf("%T %+v is refused, which the log does not say: %w", a.cmd, a.cmd, a.err)
	case events.CodeOf(a.err) == events.CodeAlreadyCompleted && !other:
		return fmt.Errorf("%T %+v is refused for another, which the log does not have: %w", a.cmd, a.cmd, a.err)
	}
	if a.repeat {
		m.counts.repeats++
	}
	if other {
		m.counts.second++
	}
	return nil
}

// keeps reports whether the life went on all the time from the question to its answer.
func (b *mailbox) keeps(a mailTold) bool {
	return b.created <= a.asked && (b.pruned == 0 || b.pruned > a.now)
}

// lives reports whether it had not ended all that time.
func (b *mailbox) lives(a mailTold) bool { return b.alive != 0 && b.alive <= a.asked }

// has is where the signal of a message id has come; 0: it has not.
func (b *mailbox) has(msgID string) events.Seq {
	for _, l := range b.letters {
		if l.MsgID == msgID {
			return l.at
		}
	}
	return 0
}

// answered reports whether a question was answered so. Of the comment of an approval nothing is
// known any more once the item has asked something else: it may be told that it repeats the other.
func (b *mailbox) answered(n int, by string, a events.Answer, taken bool) bool {
	q := b.asked[n-1]
	return q.answered != 0 && q.by == by && q.choice == a.Choice && (q.comment == a.Comment || taken && a.Choice == events.ChoiceApprove && n < len(b.asked))
}

// isOpen reports whether the question could be answered from then to now.
func (q *aQuestion) isOpen(a mailTold) bool {
	return q.opened <= a.asked && (q.over == 0 || q.over > a.now)
}

func answerOf(c core.PresentToken) (a events.Answer) {
	_ = json.Unmarshal(c.Result, &a)
	return a
}

// post makes what people and runs say of signals, tokens and questions.
type post struct {
	rng    *rand.Rand
	newID  func() events.ID
	sent   []core.Command   // that may be sent again
	tokens []core.GiveToken // of which their runs know that they are recorded
	asks   []events.ID      // items that have asked something
}

const remindType = events.Type("remind")

// ofRun has a run report a token that it has made, or end in a wait, mostly with a question.
func (p *post) ofRun(r *wire.Report) {
	r.Start = true
	if p.rng.IntN(3) == 0 {
		id := p.newID()
		r.Event, r.WaitToken = wire.ReportToken, &wire.WaitToken{Name: []string{"go", "stop"}[p.rng.IntN(2)], Hash: fmt.Sprintf("%064x", id[:]), For: []string{"", "ada"}[p.rng.IntN(2)]}
		return
	}
	w := &wire.WaitFor{Names: []string{"go", "stop"}[:1+p.rng.IntN(2)], All: p.rng.IntN(3) == 0, For: events.Millis(int64(1000 + p.rng.IntN(30_000)))}
	w.Then = []events.WaitThen{events.WaitContinue, events.WaitContinue, events.WaitFail, events.WaitComplete}[p.rng.IntN(4)]
	if !w.All && p.rng.IntN(4) > 0 {
		w.Ask = json.RawMessage(`{"title": "Go?"}`)
		if p.rng.IntN(2) == 0 {
			w.Ask = fmt.Appendf(nil, `{"title": "Go?", "remind": {"every_ms": %d, "type": %q, "most": %d}}`, 1000+p.rng.IntN(4000), remindType, p.rng.IntN(3))
		}
	}
	r.Event, r.Wait = wire.ReportWait, w
}

// heard has a run know that what it has reported was taken.
func (p *post) heard(r wire.Report) {
	id, _ := events.ParseID(r.ID)
	switch {
	case r.WaitToken != nil:
		p.tokens = append(p.tokens, core.GiveToken{Run: core.Run{ID: id}, Name: r.WaitToken.Name, Hash: r.WaitToken.Hash, For: r.WaitToken.For})
	case r.Wait != nil && r.Wait.Ask != nil:
		p.asks = append(p.asks, id)
	}
}

// next is something that somebody sends to one of ids, or to start one: new, or once more.
func (p *post) next(state *core.State, ids []events.ID) (cmd core.Command, err error) {
	again := len(p.sent) > 0 && p.rng.IntN(4) == 0
	if again {
		return p.sent[p.rng.IntN(len(p.sent))], nil
	}
	name := []string{"go", "stop"}[p.rng.IntN(2)]
	switch kind := p.rng.IntN(10); {
	case kind < 4 && len(p.tokens) > 0:
		t := p.tokens[p.late(len(p.tokens))]
		c := core.PresentToken{ID: t.ID, Hash: t.Hash, Result: json.RawMessage(strconv.Itoa(p.rng.IntN(2)))}
		switch {
		case t.For != "":
			if c.Number, err = asksNow(state, t.ID); err != nil {
				return nil, err
			}
			c.Result, err = json.Marshal(p.answer())
		case p.rng.IntN(4) == 0:
			c.Result, c.Error = nil, &events.SignalError{Code: "declined"}
		}
		cmd = c
	case kind < 7 && len(p.asks) > 0:
		c := core.Answer{ID: p.asks[p.late(len(p.asks))], Answer: p.answer(), Who: events.Answerer{Name: []string{"ada", "bob"}[p.rng.IntN(2)]}}
		if c.Number, err = asksNow(state, c.ID); c.Number == 0 {
			c.Number = 1
		}
		cmd = c
	case kind < 8 && len(ids) > 0:
		cmd = core.Signal{ID: ids[p.late(len(ids))], Name: name, MsgID: p.newID().String()}
	default:
		id := p.newID()
		c := core.Submit{Type: clusterType, NewID: id, ID: id}
		if p.rng.IntN(2) == 0 {
			c.DedupKey = "order-" + strconv.Itoa(p.rng.IntN(3))
			c.DedupPolicy = []events.DedupPolicy{"", "", events.DedupDistinct, events.DedupSupersede, events.DedupDefer}[p.rng.IntN(5)]
		} else {
			c.ID = events.ID{3, byte(p.rng.IntN(6))}
		}
		c.Signal = &core.FirstSignal{Name: name, MsgID: c.ID.String() + "/" + id.String()}
		cmd = c
	}
	p.sent = append(p.sent, cmd)
	return cmd, err
}

// another returns what a second person sends at the same time: the same command, or another answer.
func (p *post) another(cmd core.Command) core.Command {
	switch c := cmd.(type) {
	case core.Answer:
		c.Who.Name, c.Answer = []string{"ada", "bob", "eve"}[p.rng.IntN(3)], p.answer()
		return c
	case core.PresentToken:
		if len(c.Result) == 1 && p.rng.IntN(2) == 0 {
			c.Result = json.RawMessage("2")
		}
		return c
	}
	return cmd
}

func (p *post) answer() events.Answer {
	return events.Answer{Choice: []events.Choice{events.ChoiceApprove, events.ChoiceReject}[p.rng.IntN(2)], Comment: []string{"", "fine"}[p.rng.IntN(2)]}
}

// late is one of n, mostly of the last.
func (p *post) late(n int) int {
	if p.rng.IntN(4) > 0 {
		return n - 1 - p.rng.IntN(min(n, 4))
	}
	return p.rng.IntN(n)
}

// asksNow is the number of what an item asks; 0: nothing.
func asksNow(state *core.State, id events.ID) (int, error) {
	it, err := state.Item(id)
	if it == nil || err != nil {
		return 0, err
	}
	return it.Wait().Asks(), nil
}
