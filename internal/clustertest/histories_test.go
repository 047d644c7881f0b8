package clustertest

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// did is an operation of a hand-written history.
func did(call, ret int64, in input, out output) porcupine.Operation {
	in.part = "k"
	return porcupine.Operation{Input: in, Output: out, Call: call, Return: ret}
}

var (
	unknown  = output{unknown: true}
	ok       = output{}
	isQueued = output{state: queued}
	isRepeat = output{state: queued, repeat: true}
	stale    = output{refused: "stale_token"}
	notFound = output{refused: "not_found"}
)

func into(id string) output   { return output{state: merged, into: id} }
func is(state string) output  { return output{state: state} }
func refused(c string) output { return output{refused: c} }

// The model tells good histories from bad ones.
func TestModel(t *testing.T) {
	submit := func(id string) input { return input{op: opSubmit, id: id} }
	get := func(id string) input { return input{op: opGet, id: id} }
	cancel := func(id string) input { return input{op: opCancel, id: id} }
	start := func(id, token string) input { return input{op: opStart, id: id, token: token} }
	complete := func(id, token string) input { return input{op: opComplete, id: id, token: token} }
	fail := func(id, token string) input { return input{op: opFail, id: id, token: token} }
	type history []porcupine.Operation
	for name, c := range map[string]struct {
		history history
		good    bool
	}{
		"a life":                                {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, complete("a", "t1"), ok), did(7, 8, get("a"), is(completed))}, true},
		"a duplicate is merged":                 {history{did(1, 2, submit("a"), isQueued), did(3, 4, submit("b"), into("a"))}, true},
		"a duplicate is queued":                 {history{did(1, 2, submit("a"), isQueued), did(3, 4, submit("b"), isQueued)}, false},
		"cancelled before the answer":           {history{did(1, 4, submit("a"), is(cancelled)), did(2, 3, cancel("a"), is(cancelled)), did(5, 6, submit("b"), isQueued)}, true},
		"one of two at once is merged":          {history{did(1, 4, submit("a"), into("b")), did(2, 3, submit("b"), isQueued)}, true},
		"merged into what is submitted later":   {history{did(1, 2, submit("a"), into("b")), did(3, 4, submit("b"), isQueued)}, false},
		"each of two merged into the other":     {history{did(1, 4, submit("a"), into("b")), did(2, 3, submit("b"), into("a"))}, false},
		"the key is free after the end":         {history{did(1, 2, submit("a"), isQueued), did(3, 4, cancel("a"), is(cancelled)), did(5, 6, submit("b"), isQueued)}, true},
		"the key is kept after the end":         {history{did(1, 2, submit("a"), isQueued), did(3, 4, cancel("a"), is(cancelled)), did(5, 6, submit("b"), into("a"))}, false},
		"a repeat":                              {history{did(1, 2, submit("a"), isQueued), did(3, 4, submit("a"), isRepeat)}, true},
		"a second item for a repeat":            {history{did(1, 2, submit("a"), isQueued), did(3, 4, submit("a"), isQueued)}, false},
		"a repeat of nothing":                   {history{did(1, 2, submit("a"), isRepeat)}, false},
		"an unanswered submission happened":     {history{did(1, never, submit("a"), unknown), did(3, 4, submit("a"), isRepeat)}, true},
		"an unanswered submission did not":      {history{did(1, never, submit("a"), unknown), did(3, 4, submit("a"), isQueued), did(5, 6, get("a"), isQueued)}, true},
		"an unanswered submission happens late": {history{did(1, never, submit("a"), unknown), did(3, 4, get("a"), notFound), did(5, 6, get("a"), isQueued)}, true},
		"an item vanishes":                      {history{did(1, 2, submit("a"), isQueued), did(3, 4, get("a"), notFound)}, false},
		"an unanswered item vanishes":           {history{did(1, never, submit("a"), unknown), did(3, 4, get("a"), isQueued), did(5, 6, get("a"), notFound)}, false},
		"two starts with a lease's end between": {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, start("a", "t2"), ok), did(7, 8, complete("a", "t2"), ok)}, true},
		"the first of two starts completes":     {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, start("a", "t2"), ok), did(7, 8, complete("a", "t1"), ok)}, false},
		"the first of two starts is refused":    {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, start("a", "t2"), ok), did(7, 8, complete("a", "t1"), stale)}, true},
		"a token is granted again":              {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, start("a", "t2"), ok), did(7, 8, start("a", "t1"), ok)}, false},
		"a start is asked again":                {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, start("a", "t1"), ok)}, true},
		"completed by two":                      {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, complete("a", "t1"), ok), did(7, 8, start("a", "t2"), ok)}, false},
		"a completion is asked again":           {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, complete("a", "t1"), ok), did(7, 8, complete("a", "t1"), ok)}, true},
		"a completion is taken back":            {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, complete("a", "t1"), ok), did(7, 8, complete("a", "t1"), stale)}, false},
		"an unanswered completion":              {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, never, complete("a", "t1"), unknown), did(7, 8, get("a"), is(completed))}, true},
		"a completion of what was not started":  {history{did(1, 2, submit("a"), isQueued), did(5, 6, complete("a", "t1"), ok)}, false},
		"completed, then queued":                {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, complete("a", "t1"), ok), did(7, 8, get("a"), isQueued)}, false},
		"a stale answer within a session":       {history{did(1, 2, submit("a"), isQueued), did(3, 4, cancel("a"), is(cancelled)), did(2, 8, get("a"), isQueued)}, true},
		"a cancelled item is completed":         {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, cancel("a"), is(cancelled)), did(7, 8, complete("a", "t1"), ok)}, false},
		"a cancelled item's run is refused":     {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, cancel("a"), is(cancelled)), did(7, 8, complete("a", "t1"), stale)}, true},
		"a cancelled item is started":           {history{did(1, 2, submit("a"), isQueued), did(3, 4, cancel("a"), is(cancelled)), did(5, 6, start("a", "t1"), ok)}, false},
		"a cancel is refused for no reason":     {history{did(1, 2, submit("a"), isQueued), did(3, 4, cancel("a"), refused("wrong_state"))}, false},
		"a completed item is not cancelled":     {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, complete("a", "t1"), ok), did(7, 8, cancel("a"), refused("wrong_state"))}, true},
		"poisoned":                              {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, get("a"), is(dead)), did(7, 8, complete("a", "t1"), stale)}, true},
		"dead without a run":                    {history{did(1, 2, submit("a"), isQueued), did(5, 6, get("a"), is(dead))}, false},
		"failed, started again":                 {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, fail("a", "t1"), ok), did(7, 8, start("a", "t2"), ok)}, true},
		"failed, completed under the old token": {history{did(1, 2, submit("a"), isQueued), did(3, 4, start("a", "t1"), ok), did(5, 6, fail("a", "t1"), ok), did(7, 8, complete("a", "t1"), ok)}, false},
	} {
		if got := porcupine.CheckOperations(model, c.history); got != c.good {
			t.Errorf("%s: the model says %v, want %v", name, got, c.good)
		}
	}
}
