package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
)

// checker collects faults.
type checker struct{ errs []*Error }

func (c *checker) failf(key, format string, args ...any) {
	c.errs = append(c.errs, &Error{Key: key, Msg: fmt.Sprintf(format, args...)})
}

// report adds the faults of a setting: one, or one for each element of a list of
// tables.
func (c *checker) report(key string, err error) { c.errs = append(c.errs, faults(key, err)...) }

// faults lists the errors that err joins: an [*Error] as it is, others as faults of
// the setting key.
func faults(key string, err error) (list []*Error) {
	switch x := err.(type) {
	case nil:
	case interface{ Unwrap() []error }:
		for _, one := range x.Unwrap() {
			list = append(list, faults(key, one)...)
		}
	case *Error:
		list = []*Error{x}
	case *elementError:
		list = []*Error{{Key: key, Msg: x.text, at: elementKey(key, x.index) + "." + x.key}}
	default:
		list = []*Error{{Key: key, Msg: err.Error()}}
	}
	return list
}

// walk checks the settings of a table, and of those below it, one by one.
func (c *checker) walk(path string, fields []field) {
	for _, f := range fields {
		key := path + f.key
		switch {
		case f.check != nil:
			c.report(key, f.check())
		case f.each != "":
			for _, name := range f.names() {
				below, err := f.table(name)
				if err != nil {
					c.failf(key+"."+name, "%v", err)
					continue
				}
				c.walk(key+"."+name+".", below)
			}
		case f.table != nil:
			below, _ := f.table("")
			c.walk(key+".", below)
		}
	}
}

// Validate reports all faults, joined: an [*Error] with a key for each. It expects
// a Config with its defaults filled in.
func (c Config) Validate() error {
	var ch checker
	ch.walk("", c.fields())
	ch.tls("http", c.HTTP.TLSCert, c.HTTP.TLSKey, c.HTTP.ClientCA)
	if (c.HTTP.ClientCA == "") != (len(c.HTTP.Clients) == 0) {
		ch.failf("http.client_ca", "and [[http.clients]] belong together: the one says which certificates are good, the other what their owners may do")
	}
	ch.tls("nats", c.NATS.TLSCert, c.NATS.TLSKey, c.NATS.ClientCA)
	c.checkLeaf(&ch)
	c.checkConnect(&ch)
	c.checkCluster(&ch)
	c.Workers.check(&ch)
	c.checkCounts(&ch)
	if !ch.failed("worker_circuit") {
		if err := c.WorkerCircuitSettings().ValidateWorker(); err != nil {
			ch.failf("worker_circuit", "doesn't hold together: %s", Spell(err.Error()))
		}
	}
	if !ch.failed("limits") {
		ch.report("limits.queue_steps", checkSteps(events.Limits{MaxQueued: c.Limits.MaxQueued, QueueSteps: c.Limits.QueueSteps}))
	}
	c.checkTypes(&ch)
	for _, name := range slices.Sorted(maps.Keys(c.Schedules)) {
		if at := "schedules." + name; !ch.failed(at) {
			c.Schedules[name].check(&ch, name)
		}
	}
	return join(ch.errs)
}

func join(errs []*Error) error {
	all := make([]error, len(errs))
	for i, e := range errs {
		all[i] = e
	}
	return errors.Join(all...)
}

// failed reports whether a table has a fault.
func (c *checker) failed(table string) bool {
	return slices.ContainsFunc(c.errs, func(e *Error) bool {
		return e.Key == table || strings.HasPrefix(e.Key, table+".")
	})
}

// checkCounts bounds the tables with names.
func (c Config) checkCounts(ch *checker) {
	for _, of := range []struct {
		key     string
		n, most int
	}{
		{"pools", len(c.Pools), events.MaxPools}, {"user_quotas", len(c.Quotas.Users), quota.MaxUserQuotas},
		{"types", len(c.Types), events.MaxTypes}, {"schedules", len(c.Schedules), events.MaxSchedules}, {"namespaces", len(c.Namespaces), events.MaxNamespaces},
	} {
		if of.n > of.most {
			ch.failf(of.key, "has %d tables: at most %d", of.n, of.most)
		}
	}
}

func (w Workers) check(c *checker) {
	if w.DeadAfter < minHeartbeatsMissed*w.HeartbeatInterval {
		c.failf("workers.dead_after", "is %s: it must be at least %d times heartbeat_interval, which is %s, or a worker would die of one lost heartbeat", FormatDuration(w.DeadAfter), minHeartbeatsMissed, FormatDuration(w.HeartbeatInterval))
	}
	if w.ProbeTimeout >= w.ProbeInterval {
		c.failf("workers.probe_timeout", "is %s: it must be less than probe_interval, which is %s", FormatDuration(w.ProbeTimeout), FormatDuration(w.ProbeInterval))
	}
}

// checkTypes reports settings of types that don't hold together, and commands and
// pools that are missing.
func (c Config) checkTypes(ch *checker) {
	c.checkPatch(ch, "defaults", c.Defaults)
	if !ch.failed("defaults") {
		if err := c.TypeDefaults().Validate(); err != nil {
			ch.failf("defaults", "doesn't hold together: %s", Spell(err.Error()))
		}
	}
	for _, name := range c.TypeNames() {
		t, at := c.Types[name], "types."+string(name)
		if !ch.failed(at) && !ch.failed("defaults") {
			if err := c.Settings(name).Validate(); err != nil {
				ch.failf(at, "doesn't hold together with the defaults: %s", Spell(err.Error()))
			}
		}
		c.checkPatch(ch, at, t.Patch)
		if t.Exec != nil && (len(t.Exec.Command) == 0 || t.Exec.Command[0] == "") {
			ch.failf(at+".exec.command", "is missing: name the program to run, such as [\"cmd\", \"arg\"]")
		}
	}
}

func (c Config) checkPatch(ch *checker, at string, p Patch) {
	if n := len(p.below(codesTable)); n > events.MaxCodes {
		ch.failf(at+".codes", "has %d entries: at most %d", n, events.MaxCodes)
	}
	if pool, _ := p["pool"].(string); pool != "" {
		if _, ok := c.Pools[pool]; !ok {
			ch.failf(at+".pool", "is %q, and there is no such pool: add [pools.%s] with slots", pool, pool)
		}
	}
	named := p.Named()
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if !slices.Contains(named, name) {
			ch.failf(at+"."+name, "is no setting: see docs/reference/CONFIG.md")
		}
	}
}

func (c Config) checkConnect(ch *checker) {
	for _, table := range []struct {
		key string
		connect.Settings
	}{{"connect", c.Connect}, {"connect.exec", c.ExecConnect}} {
		if err := table.Check("the table"); err != nil {
			ch.failf(table.key, "is wrong: %s", strings.TrimPrefix(err.Error(), connect.ErrConflict.Error()+": "))
		}
	}
	x := c.ExecConnect
	if x != (connect.Settings{}) && x.Creds+x.Nkey+x.User+x.Cert == "" {
		ch.failf("connect.exec", "names no login: give it creds, nkey, user or tls_cert, or leave it out")
	}
	if x.User != "" && x.PasswordFile == "" {
		ch.failf("connect.exec.password_file", "is missing: the user %s needs one", x.User)
	}
	if (c.Connect != (connect.Settings{}) || x != (connect.Settings{})) && !c.External() {
		ch.failf("connect", "is for an existing NATS: set server.nats_url too, or leave it out (users of the embedded server are [[nats.users]])")
	}
}

func (c *checker) tls(at, cert, key, ca string) {
	if (cert == "") != (key == "") {
		c.failf(at+".tls_cert", "and tls_key belong together: name both or none")
	}
	if ca != "" && cert == "" {
		c.failf(at+".client_ca", "needs tls_cert and tls_key: certificates are shown over TLS only")
	}
}
