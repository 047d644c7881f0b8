package process

import (
	"net/url"
	"runtime"
	"slices"
	"strings"
)

// ordinary are the variables that any program needs and that hold no secret.
// Names that end with _ are prefixes.
var ordinary = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
	// Windows:
	"PATHEXT", "COMSPEC", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "TEMP", "TMP", "USERNAME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES",
}

// secrets are the variables by which this project's programs log in, and send
// their traces.
var secrets = []string{"NATS_PASSWORD", "NATS_TOKEN", "NATS_CREDS", "NATS_NKEY", "NATS_KEY", "NATS_PASSWORD_FILE", "WORK_TOKENS", "STREAMWRIGHT_TOKEN"}

// ofRun are the variables of one run. If the worker is itself the child of an item,
// its own children must not inherit them.
var ofRun = []string{"WORK_REPORT_FD", "WORK_CONTINUATION", "WORK_CHILDREN", "WORK_WAITED", "WORK_SIGNALS", "TRACEPARENT"}

// environ returns the part of the worker's own environment that a child gets:
// all but the secrets, or, if restricted, only the ordinary variables; in
// either case also the ones passed by name.
func (c *config) environ(own []string) []string {
	out := slices.DeleteFunc(slices.Clone(own), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case named(ofRun, name):
			return true
		case named(c.pass, name):
			return false
		case c.restricted:
			return !isOrdinary(name)
		}
		return isSecret(name, value)
	})
	return append(out, c.env...)
}

// named compares names as the system does.
func named(list []string, name string) bool {
	return slices.ContainsFunc(list, func(n string) bool {
		return n == name || runtime.GOOS == "windows" && strings.EqualFold(n, name)
	})
}

func isOrdinary(name string) bool {
	return named(ordinary, name) || slices.ContainsFunc(ordinary, func(p string) bool { return strings.HasSuffix(p, "_") && strings.HasPrefix(name, p) })
}

func isSecret(name, value string) bool {
	if name == "NATS_URL" { // may have a login in it
		return slices.ContainsFunc(strings.Split(value, ","), func(one string) bool {
			u, err := url.Parse(strings.TrimSpace(one))
			return err != nil || u.User != nil || strings.Contains(one, "@")
		})
	}
	return named(secrets, name) || strings.HasPrefix(name, "OTEL_") && strings.HasSuffix(name, "_HEADERS")
}

// Env adds variables to the children's environment: NAME=value, or NAME alone
// for what the worker's own has, a secret too. What the item says of itself
// (WORK_ID and so on) counts more.
func Env(list ...string) Option {
	return func(c *config) {
		for _, kv := range list {
			if strings.Contains(kv, "=") {
				c.env = append(c.env, kv)
			} else {
				c.pass = append(c.pass, kv)
			}
		}
	}
}

// Restricted gives the children of the worker's own environment only what any
// program needs (PATH, HOME, USER, SHELL, LANG, LC_*, TZ, TMPDIR and their like),
// and what [Env] names. Without it they get everything but the variables by which
// this project's programs log in.
func Restricted() Option { return func(c *config) { c.restricted = true } }
