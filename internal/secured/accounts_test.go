package secured

import (
	"strings"
	"testing"
)

// What comes live, and what was there, and what is stopped.
func TestAccountsFollowAndStop(t *testing.T) {
	url, _ := passwords(t)
	w := within(url)
	as := func(user string) login { return w.login(user).with("--server", w.url) }
	server := w.login("engine").begin(t, "engine", "serve", "--nats-url", w.url, "--http", "off", "--dir", t.TempDir())
	server.says("engine ready")
	// With --since, because the work may have begun before the tail has.
	tail := as("read").begin(t, "engine", "tail", "--json", "--since", "1h", "--type", "slow", "--kind", "running", "--kind", "cancelled")
	worker := as("work").begin(t, "engine", "work", "slow", "--id", "w1", "--", "sh", "-c", "echo begun >&2; exec sleep 1000")
	worker.says("waits for slow items")
	id := itemID.FindString(as("submit").run(t, "submit", "slow", "{}").wants(t, 0).out)
	logs := as("read").begin(t, "engine", "logs", id, "--follow")
	logs.says("begun")
	tail.says(`"running"`)
	as("submit").run(t, "cancel", id).wants(t, 0)
	tail.says(`"cancelled"`)
	eventually(t, "the log ends", func() bool {
		select {
		case <-logs.done:
			return true
		default:
			return false
		}
	})
	for _, args := range [][]string{{"--since", "1h"}, {"--from-seq", "1"}, {"--from-seq", "1", "--id", id}} {
		old := as("read").begin(t, "engine", append([]string{"tail"}, args...)...)
		old.says("cancelled")
		old.end()
	}
	as("operate").run(t, "workers", "drain", "w1").wants(t, 0)
	eventually(t, "the worker ends", func() bool {
		select {
		case <-worker.done:
			return true
		default:
			return false
		}
	})
	tail.end()
	server.end()
	if strings.Contains(server.log(), "refuses") {
		t.Errorf("the engine lacks a permission:\n%s", server.log())
	}
}
