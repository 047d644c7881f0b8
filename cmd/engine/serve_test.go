package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
)

// An engine that can't start says why, what to do, and with a stable code.
func TestServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newer := filepath.Dir(file("newer/VERSION", "99\n"))
	held := filepath.Join(dir, "held")
	e, err := embedded.Start(t.Context(), embedded.Options{Dir: held, NATSListen: config.Off, HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop(t.Context())
	fresh := filepath.Join(dir, "fresh")
	for name, tc := range map[string]struct {
		args []string
		says []string
	}{
		"two faults in a file": {
			[]string{"--config", file("two.toml", "[types.email]\ncapcity = 3\nlease = \"1ms\"\n")},
			[]string{"2 things are wrong (bad_config)\n", "two.toml:2: types.email.capcity is no setting: did you mean capacity?\n", "two.toml:3: types.email.lease is 1ms"},
		},
		"no TOML":       {[]string{"--config", file("no.toml", "[types\n")}, []string{"no.toml:1:", "(bad_config)"}},
		"no file":       {[]string{"--config", filepath.Join(dir, "absent.toml")}, []string{"absent.toml", "(bad_config)"}},
		"durability":    {[]string{"--config", file("durability.toml", "[server]\ndurability = \"perhaps\"\n")}, []string{`"always" or "interval" (bad_config)`}},
		"NATS port":     {[]string{"--nats-listen", taken.Addr().String()}, []string{taken.Addr().String(), "nats_listen", "(cannot_listen)"}},
		"HTTP port":     {[]string{"--http", taken.Addr().String()}, []string{taken.Addr().String(), "off for none", "(cannot_listen)"}},
		"open HTTP":     {[]string{"--http", "0.0.0.0:0"}, []string{"--http-tokens", "allow_open", "(bad_config)"}},
		"open NATS":     {[]string{"--nats-listen", "0.0.0.0:0"}, []string{"[[nats.users]]", "allow_open", "(bad_config)"}},
		"bad tokens":    {[]string{"--http-tokens", file("tokens", "# who\nalice short read\n")}, []string{"tokens:2: the token is weak", "(bad_config)"}},
		"folder in use": {[]string{"--dir", held}, []string{held, "stop that process", "(folder_in_use)"}},
		"newer folder":  {[]string{"--dir", newer}, []string{newer, "use a newer program (newer_format)"}},
		"no NATS":       {[]string{"--nats-url", "nats://127.0.0.1:1"}, []string{"nats://127.0.0.1:1", "start it", "(unavailable)"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"serve", "--dir", fresh, "--nats-listen", "off", "--http", "off"}, tc.args...)
			engine(t, "", args...).wants(t, 1, tc.says...)
		})
	}
}

func TestListenersOnAllAddressesAreSaidToBe(t *testing.T) {
	for listen, all := range map[string]bool{"0.0.0.0:8484": true, "[::]:8484": true, "127.0.0.1:8484": false, "192.0.2.7:8484": false} {
		if got := others(listen) != ""; got != all {
			t.Errorf("%s: %v", listen, got)
		}
	}
}

// A data folder that is not there is a mistake: salvage makes none.
func TestSalvageMakesNoFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dtaa")
	engine(t, "", "salvage", "--dir", dir, "--yes").wants(t, 1, dir, "--dir")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is there: %v", err)
	}
}
