package clustertest

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// The operations of the model.
const (
	opSubmit   = "submit"
	opStart    = "start"
	opComplete = "complete"
	opFail     = "fail"
	opCancel   = "cancel"
	opGet      = "get"
)

// input is a request. Part is the dedup key of the item, or its id if it has
// none: no rule of the model spans two parts.
type input struct {
	op, part, id, token string
}

// output is what the client was told. Unknown means that it was told nothing:
// the request may have been executed, or may be executed later, or never.
type output struct {
	unknown bool
	refused string // the error's code; empty: it was accepted
	state   string // of submit, cancel and get
	repeat  bool   // of submit
	into    string // of submit: what it was merged into
}

// never is the time of the return of an operation without an answer.
const never = math.MaxInt64

// The states of an item in the model. What the engine does by itself between
// two requests (the lease of a run ends, a run is released) is a silent step
// from running to queued, or to dead.
const (
	queued    = "queued" // or claimed: by an engine, which asks nobody
	running   = "running"
	completed = "completed"
	cancelled = "cancelled"
	merged    = "merged"
	dead      = "dead" // its workers were lost again and again
)

// item is an item in the model: its state, the token of the run that was
// started last, and the tokens of the runs before, which are void.
type item struct {
	id, state, token, void string
}

func (it item) live() bool { return it.state == queued || it.state == running }

// retired returns the item with its run ended without an outcome.
func (it item) retired(token string) bool {
	return slices.Contains(strings.Split(it.void, " "), token)
}

func (it item) requeued() item {
	it.void += " " + it.token
	it.state, it.token = queued, ""
	return it
}

// part is a state of the model: the items of one dedup key, sorted by id. It is
// never changed in place.
type part []item

func (p part) find(id string) (int, bool) {
	return slices.BinarySearchFunc(p, id, func(it item, id string) int { return cmp.Compare(it.id, id) })
}

// with returns the state with one item set.
func (p part) with(it item) part {
	i, known := p.find(it.id)
	if known {
		p = slices.Clone(p)
		p[i] = it
		return p
	}
	return slices.Insert(slices.Clone(p), i, it)
}

// holder returns the live item of the part, if there is one.
func (p part) holder() (item, bool) {
	for _, it := range p {
		if it.live() {
			return it, true
		}
	}
	return item{}, false
}

// expired returns the states that p may have become by itself.
func (p part) expired() []part {
	all := []part{p}
	for _, it := range p {
		if it.state == running {
			for _, q := range all {
				gone := it.requeued()
				all = append(all, q.with(gone))
				gone.state = dead
				all = append(all, q.with(gone))
			}
		}
	}
	return all
}

// step returns the states after an operation that p allows.
func (p part) step(in input, out output) (next []part) {
	for _, q := range p.expired() {
		switch {
		case out.unknown:
			next = append(next, q)
			if did, ok := q.execute(in); ok {
				next = append(next, did)
			}
		case q.answers(in, out):
			if did, ok := q.execute(in); ok && out.refused == "" {
				next = append(next, did)
			} else {
				next = append(next, q)
			}
		}
	}
	return next
}

// execute returns the state after a request that is accepted and changes
// something.
func (p part) execute(in input) (part, bool) {
	i, known := p.find(in.id)
	if in.op == opSubmit {
		if known {
			return nil, false
		}
		it := item{id: in.id, state: queued}
		if _, taken := p.holder(); taken {
			it.state = merged
		}
		return p.with(it), true
	}
	if !known {
		return nil, false
	}
	it := p[i]
	switch in.op {
	case opStart:
		if it.state != queued || it.retired(in.token) {
			return nil, false
		}
		it.state, it.token = running, in.token
	case opComplete:
		if it.state != running || it.token != in.token {
			return nil, false
		}
		it.state = completed
	case opFail:
		if it.state != running || it.token != in.token {
			return nil, false
		}
		it = it.requeued()
	case opCancel:
		if !it.live() {
			return nil, false
		}
		it.state = cancelled
	default:
		return nil, false
	}
	return p.with(it), true
}

// answers reports whether the answer is right in this state.
func (p part) answers(in input, out output) bool {
	var it item
	i, known := p.find(in.id)
	if known {
		it = p[i]
	}
	switch in.op {
	case opSubmit:
		return out.refused != "" && !known || out.refused == "" && p.submitted(out, known)
	case opGet:
		if out.refused != "" {
			return !known
		}
		return known && shows(it, out.state)
	case opCancel:
		switch {
		case out.refused == "not_found":
			return !known
		case out.refused != "":
			return it.state == completed || it.state == merged || it.state == dead
		}
		return it.live() || it.state == cancelled
	case opStart:
		// A refusal says little: the dispatch may have been withdrawn.
		return out.refused != "" || it.state == queued && !it.retired(in.token) || it.state == running && it.token == in.token
	case opComplete:
		mine := known && it.token == in.token && (it.state == running || it.state == completed)
		return mine == (out.refused == "")
	case opFail:
		mine := known && it.state == running && it.token == in.token
		return mine || out.refused != "" || it.retired(in.token)
	}
	return false
}

// submitted reports whether a submission is rightly answered as accepted. The
// state in the answer may be a later one: that of an item which was cancelled by
// the time of the answer, say.
func (p part) submitted(out output, known bool) bool {
	if known || out.repeat {
		return known == out.repeat
	}
	holder, taken := p.holder()
	if taken {
		return out.state == merged && out.into == holder.id
	}
	return out.state != merged && out.into == ""
}

// shows reports whether an item may be shown in this state.
func shows(it item, state string) bool {
	switch state {
	case queued, "claimed", "failed", "created":
		return it.state == queued
	}
	return it.state == state
}

// model is what submit with dedup, start, complete, fail, cancel and get must
// look like.
var model = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		of := map[string]int{}
		for _, op := range history {
			name := op.Input.(input).part
			i, ok := of[name]
			if !ok {
				i, of[name] = len(parts), len(parts)
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	},
	Init: func() []any { return []any{part(nil)} },
	Step: func(state, in, out any) (next []any) {
		for _, p := range state.(part).step(in.(input), out.(output)) {
			next = append(next, p)
		}
		return next
	},
	Equal: func(a, b any) bool { return slices.Equal(a.(part), b.(part)) },
	Hash: func(state any) uint64 {
		h := fnv.New64a()
		for _, it := range state.(part) {
			fmt.Fprintf(h, "%v\n", it)
		}
		return h.Sum64()
	},
	DescribeOperation: func(in, out any) string { return describe(in.(input), out.(output)) },
	DescribeState:     func(state any) string { return fmt.Sprint(state.(part)) },
}).ToModel()

func describe(in input, out output) string {
	request := in.op + " " + in.id
	if in.token != "" {
		request += " token " + in.token
	}
	switch {
	case out.unknown:
		return request + ": no answer"
	case out.refused != "":
		return request + ": refused, " + out.refused
	case out.into != "":
		return request + ": merged into " + out.into
	case out.repeat:
		return request + ": repeat, " + out.state
	}
	return strings.TrimSuffix(request+": "+out.state, ": ")
}
