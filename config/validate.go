package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

var (
	prefixPattern     = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)
	envPattern        = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	capabilityPattern = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)
)

// checker collects [*Error]s.
type checker struct{ errs []error }

func (c *checker) failf(key, format string, args ...any) {
	c.errs = append(c.errs, &Error{Key: key, Msg: fmt.Sprintf(format, args...)})
}

// failIn reports what is wrong with an element of a list of tables; field is the key
// in it that says so, empty for the element as a whole.
func (c *checker) failIn(key string, index int, field, format string, args ...any) {
	c.errs = append(c.errs, &Error{Key: key, Msg: fmt.Sprintf(format, args...), at: elementKey(key, index) + "." + field})
}

func (c *checker) in(key string, v, lo, hi int64) {
	if v < lo || v > hi {
		c.failf(key, "is %d: it must be %d to %d", v, lo, hi)
	}
}

func (c *checker) span(key string, d *time.Duration, lo, hi time.Duration) {
	if d != nil && (*d < lo || *d > hi) {
		c.failf(key, "is %s: it must be %s to %s", *d, lo, hi)
	}
}

// Validate reports everything that is out of bounds: an [*Error] with a key
// for each, joined. It expects a Config with its defaults filled in.
func (c Config) Validate() error {
	var ch checker
	c.Server.check(&ch)
	c.HTTP.check(&ch)
	c.NATS.check(&ch)
	c.checkConnect(&ch)
	c.Limits.check(&ch)
	c.Workers.check(&ch)
	c.checkWorkerCircuit(&ch)
	c.DedupHook.check(&ch)
	c.checkLimits(&ch)
	c.checkQuotas(&ch)
	ch.in("retention.cut_events", int64(c.Retention.CutEvents), MinCutEvents, MaxCutEvents)
	c.Defaults.Retain.check(&ch, "retention")
	c.checkDefaults(&ch)
	ch.in("types", int64(len(c.Types)), 0, events.MaxTypes)
	ch.in("limits.types", int64(len(c.Limits.Types)), 0, events.MaxTypes)
	for _, t := range c.Limits.Types {
		if _, err := events.ParseType(t); err != nil {
			ch.failf("limits.types", "has %q: %v", t, err)
		}
	}
	for _, name := range c.TypeNames() {
		c.checkType(&ch, name)
	}
	c.checkSchedules(&ch)
	return errors.Join(ch.errs...)
}

func (s Server) check(c *checker) {
	if s.Dir == "" {
		c.failf("server.dir", "is empty: name a folder")
	}
	c.address("server.nats_listen", s.NATSListen)
	c.address("server.http", s.HTTP)
	if c.address("server.pprof", s.PProf); s.PProf != Off && !loopback(s.PProf) {
		c.failf("server.pprof", "is %q: profiles show what the engine has in memory, so only an address of this machine will do, such as 127.0.0.1:6060", s.PProf)
	}
	if s.Durability != Always && s.Durability != Interval {
		c.failf("server.durability", "is %q: it must be %q or %q", s.Durability, Always, Interval)
	}
	if d := s.MaxClockJump; d != -1 {
		c.span("server.max_clock_jump_ms", &d, MinMaxClockJump, MaxMaxClockJump)
	}
	if s.NATSURL != "" {
		if u, err := url.Parse(s.NATSURL); err != nil || u.Host == "" {
			c.failf("server.nats_url", "is %q: it must be a URL such as nats://127.0.0.1:4222", s.NATSURL)
		}
	}
	if len(s.Prefix) > MaxPrefixLen || !prefixPattern.MatchString(s.Prefix) {
		c.failf("server.prefix", "is %q: it must be at most %d characters of a-z and 0-9, with single - or _ between them", s.Prefix, MaxPrefixLen)
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, s.LogLevel) {
		c.failf("server.log_level", "is %q: it must be debug, info, warn or error", s.LogLevel)
	}
	if s.LogFormat != "text" && s.LogFormat != "json" {
		c.failf("server.log_format", "is %q: it must be text or json", s.LogFormat)
	}
}

// IsAddress reports whether a server can be told to listen on addr: it is host:port,
// or off.
func IsAddress(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	n, perr := strconv.Atoi(port)
	return addr == Off || err == nil && perr == nil && n >= 0 && n <= 65535
}

func (c *checker) address(key, addr string) {
	if !IsAddress(addr) {
		c.failf(key, "is %q: it must be host:port such as 127.0.0.1:4222 (port 0: any free one), or off", addr)
	}
}

// loopback reports whether an address is of this machine alone.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (l Limits) check(c *checker) {
	c.in("limits.max_running", int64(l.MaxRunning), 1, MaxMaxRunning)
	if l.MaxStoreBytes != 0 {
		c.in("limits.max_store_bytes", l.MaxStoreBytes, 64<<20, 1<<50)
	}
	c.in("limits.max_memory_bytes", l.MaxMemoryBytes, 16<<20, 1<<45)
	c.in("limits.min_free_bytes", l.MinFreeBytes, 1<<20, 1<<50)
	c.span("limits.log_max_age_ms", &l.LogMaxAge, time.Minute, events.MaxDelay)
	c.in("limits.log_max_bytes", l.LogMaxBytes, 1<<20, 1<<50)
	c.in("limits.blob_max_bytes", l.BlobMaxBytes, 1<<20, 1<<50)
}

func (w Workers) check(c *checker) {
	c.span("workers.heartbeat_interval_ms", &w.HeartbeatInterval, MinHeartbeatInterval, MaxHeartbeatInterval)
	c.span("workers.dead_after_ms", &w.DeadAfter, MinDeadAfter, MaxDeadAfter)
	if w.DeadAfter < MinHeartbeatsMissed*w.HeartbeatInterval {
		c.failf("workers.dead_after_ms", "is %s: it must be at least %d times heartbeat_interval_ms, which is %s, or a worker would die of one lost heartbeat", w.DeadAfter, MinHeartbeatsMissed, w.HeartbeatInterval)
	}
	c.span("workers.start_timeout_ms", &w.StartTimeout, events.MinStartTimeout, events.MaxStartTimeout)
	c.span("workers.sweep_interval_ms", &w.SweepInterval, MinSweepInterval, MaxSweepInterval)
	c.span("workers.probe_interval_ms", &w.ProbeInterval, MinProbeInterval, MaxProbeInterval)
	c.span("workers.probe_timeout_ms", &w.ProbeTimeout, MinProbeTimeout, MaxProbeInterval)
	if w.ProbeTimeout >= w.ProbeInterval {
		c.failf("workers.probe_timeout_ms", "is %s: it must be less than probe_interval_ms, which is %s", w.ProbeTimeout, w.ProbeInterval)
	}
	c.in("workers.probe_failures", int64(w.ProbeFailures), 1, MaxProbeFailures)
}

func (p Patch) check(c *checker, at string) {
	if p.Capacity != nil {
		c.in(at+".capacity", int64(*p.Capacity), 1, events.MaxCapacity)
	}
	p.Limits.check(c, at)
	c.span(at+".lease_ms", p.Lease, events.MinLease, events.MaxLease)
	c.span(at+".age_step_ms", p.AgeStep, time.Millisecond, events.MaxDelay)
	if p.MaxParams != nil {
		c.in(at+".max_params_bytes", *p.MaxParams, 2, events.MaxParamsCeiling)
	}
	p.Run.check(c, at)
	p.checkProtection(c, at)
	for _, prio := range slices.Sorted(maps.Keys(p.PerPriority)) {
		p.PerPriority[prio].check(c, at+".per_priority."+strconv.Itoa(int(prio)))
	}
}

func (r RetainPatch) check(c *checker, at string) {
	c.span(at+".completed_ms", r.Completed, time.Millisecond, events.MaxDelay)
	c.span(at+".dead_ms", r.Dead, time.Millisecond, events.MaxDelay)
	c.span(at+".cancelled_ms", r.Cancelled, time.Millisecond, events.MaxDelay)
	c.span(at+".merged_ms", r.Merged, time.Millisecond, events.MaxDelay)
}

func (r RunPatch) check(c *checker, at string) {
	c.span(at+".timeout_ms", r.Timeout, time.Millisecond, events.MaxTimeout)
	if r.MaxAttempts != nil {
		c.in(at+".max_attempts", int64(*r.MaxAttempts), 1, events.MaxAttemptsCeiling)
	}
	b := r.Backoff
	c.span(at+".backoff.initial_ms", b.Initial, 0, 24*time.Hour)
	c.span(at+".backoff.max_ms", b.Max, 0, 24*time.Hour)
	if b.Factor != nil && !(*b.Factor >= 1 && *b.Factor <= 100) {
		c.failf(at+".backoff.factor", "is %g: it must be 1 to 100", *b.Factor)
	}
	if b.Jitter != nil && !(*b.Jitter >= 0 && *b.Jitter <= 1) {
		c.failf(at+".backoff.jitter", "is %g: it must be 0 to 1", *b.Jitter)
	}
}

func (c Config) checkDefaults(ch *checker) {
	before := len(ch.errs)
	c.Defaults.check(ch, "defaults")
	if len(ch.errs) > before {
		return
	}
	// What the bounds of single settings can't tell: that they fit together.
	if err := c.TypeDefaults().Validate(); err != nil {
		ch.failf("defaults", "doesn't hold together: %v", err)
	}
}

func (c Config) checkType(ch *checker, name events.Type) {
	t, at := c.Types[name], "types."+string(name)
	if _, err := events.ParseType(string(name)); err != nil {
		ch.failf(at, "%v", err)
	}
	before := len(ch.errs)
	t.Patch.check(ch, at)
	t.Patch.Retain.check(ch, at+".retain")
	if len(ch.errs) == before && !hasKey(ch.errs, "defaults") {
		if err := c.Settings(name).Validate(); err != nil {
			ch.failf(at, "doesn't hold together with the defaults: %v", err)
		}
	}
	if t.Exec != nil {
		t.Exec.check(ch, at+".exec")
	}
}

func hasKey(errs []error, table string) bool {
	return slices.ContainsFunc(errs, func(err error) bool {
		var e *Error
		return errors.As(err, &e) && (e.Key == table || len(e.Key) > len(table) && e.Key[:len(table)+1] == table+".")
	})
}

func (e Exec) check(c *checker, at string) {
	if len(e.Command) == 0 || e.Command[0] == "" {
		c.failf(at+".command", "is missing: name the program to run, such as [\"cmd\", \"arg\"]")
	}
	if len(e.Command) > MaxExecArgs {
		c.failf(at+".command", "has %d elements: at most %d", len(e.Command), MaxExecArgs)
	}
	c.in(at+".concurrency", int64(e.Concurrency), 0, events.MaxCapacity)
	if len(e.Env) > MaxExecEnv {
		c.failf(at+".env", "has %d elements: at most %d", len(e.Env), MaxExecEnv)
	}
	for _, kv := range e.Env {
		if name, _, _ := strings.Cut(kv, "="); !envPattern.MatchString(name) || strings.ContainsRune(kv, 0) {
			c.failf(at+".env", "has a variable named %q: write NAME, or NAME=value, with letters, digits and _ in the name", name)
		}
	}
	c.span(at+".grace_ms", &e.Grace, 0, MaxGrace)
	if len(e.Capabilities) > events.MaxCapabilities {
		c.failf(at+".capabilities", "has %d elements: at most %d", len(e.Capabilities), events.MaxCapabilities)
	}
	for _, name := range e.Capabilities {
		if len(name) > events.MaxCapabilityLen || !capabilityPattern.MatchString(name) {
			c.failf(at+".capabilities", "has %q: a capability is at most %d characters of a-z and 0-9, with single - or _ between them", name, events.MaxCapabilityLen)
		}
	}
}
