package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// DedupHook says whom to ask, over NATS, whether a submission is the same as
// another.
type DedupHook struct {
	Subject      string // empty: nobody is asked
	Types        []string
	Timeout      time.Duration
	Fallback     string // key, distinct
	Candidates   int
	KeySeparator string
}

// Bounds and defaults of DedupHook.
const (
	DefaultDedupTimeout    = 2 * time.Second
	MaxDedupTimeout        = time.Minute
	DefaultDedupCandidates = 20
	MaxDedupCandidates     = 200
	maxSubjectLen          = 255
)

func (d *DedupHook) withDefaults() {
	or(&d.Timeout, DefaultDedupTimeout)
	or(&d.Fallback, "key")
	or(&d.Candidates, DefaultDedupCandidates)
}

func (d *DedupHook) fields() []field {
	return []field{
		text("subject", &d.Subject, "", "the subject of the requests; empty: nobody is asked"),
		texts("types", &d.Types, "all", "the types whose submissions are asked about"),
		duration("timeout_ms", &d.Timeout, DefaultDedupTimeout.String(), "how long an answer may take, at most "+MaxDedupTimeout.String()),
		choice("fallback", &d.Fallback, "key", "without an answer: `key` decides by the dedup key, `distinct` runs it whatever else does", "key", "distinct"),
		integer("candidates", &d.Candidates, strconv.Itoa(DefaultDedupCandidates), "live items that a question lists, at most "+strconv.Itoa(MaxDedupCandidates)),
		text("key_separator", &d.KeySeparator, "", "list those whose dedup key begins like the submission's, up to the last separator in it; empty: those of its type"),
	}
}

func (d DedupHook) check(c *checker) {
	if len(d.Subject) > maxSubjectLen || strings.ContainsAny(d.Subject, " \t\r\n*>") || strings.HasPrefix(d.Subject, ".") || strings.HasSuffix(d.Subject, ".") {
		c.failf("dedup_hook.subject", "is %q: it must be a NATS subject with no wildcards, of at most %d characters", d.Subject, maxSubjectLen)
	}
	for _, t := range d.Types {
		if _, err := events.ParseType(t); err != nil {
			c.failf("dedup_hook.types", "%v", err)
		}
	}
	c.span("dedup_hook.timeout_ms", &d.Timeout, time.Millisecond, MaxDedupTimeout)
	if d.Fallback != "key" && d.Fallback != "distinct" {
		c.failf("dedup_hook.fallback", "is %q: it must be key or distinct", d.Fallback)
	}
	c.in("dedup_hook.candidates", int64(d.Candidates), 1, MaxDedupCandidates)
}

// dedupPolicy is the field of a dedup policy.
func dedupPolicy(key string, dst *events.DedupPolicy, def, doc string) field {
	return choice(key, dst, def, doc, events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer)
}
