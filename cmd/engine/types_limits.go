package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// parseLimit reads the value of a kind that only limits have.
func (k settingKind) parseLimit(text string) (any, error) {
	if k == words {
		return text, nil
	}
	var v []any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("%s; use a JSON array", wire.JSONFault(err))
	}
	return json.RawMessage(text), nil
}

// limitsOf says in a few words what limits a type has beyond its capacity, and
// the protocol if it is another than that of most.
func limitsOf(s events.TypeSettings) string {
	var parts []string
	if s.Native() {
		parts = append(parts, "protocol "+string(s.Protocol))
	}
	if s.MaxQueued > 0 && s.MaxQueued != events.DefaultMaxQueued {
		parts = append(parts, "queue "+console.Count(s.MaxQueued))
	}
	if n := len(s.QueueSteps); n > 0 {
		parts = append(parts, fmt.Sprintf("queue steps %d", n))
	}
	for _, r := range s.Rates {
		parts = append(parts, fmt.Sprintf("%d in %s per %s at %s", r.N, console.Span(time.Duration(r.IntervalMS)*time.Millisecond), console.Clean(r.Per), r.At))
	}
	if s.GroupBy != "" && s.GroupBy != events.PerTenant {
		parts = append(parts, "turns by "+console.Clean(s.GroupBy))
	}
	if s.GroupCapacity > 0 {
		parts = append(parts, fmt.Sprintf("%d per %s", s.GroupCapacity, console.Clean(s.GroupKey())))
	}
	if s.Pool != "" {
		parts = append(parts, fmt.Sprintf("pool %s (weight %d)", s.Pool, s.Weight()))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// ofMost is a queue's length, and what bounds it, if anything does. The default
// bound is worth a word where it is near.
func ofMost(n int64, most int) string {
	if most == 0 || most == events.DefaultMaxQueued && n < int64(most)/2 {
		return console.Count(n)
	}
	return console.Count(n) + " of " + console.Count(most)
}
