package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
)

// A backup is made, added to, checked and restored by the commands alone.
func TestBackupAndRestore(t *testing.T) {
	started, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	e := started.URL()
	dir, into := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "r")
	engine(t, "", "--server", e, "submit", "email", "{}").wants(t, 0)
	engine(t, "", "--server", e, "backup", dir).wants(t, 0, "backed up "+dir, "positions 4096 to")
	engine(t, "", "--server", e, "submit", "email", "{}").wants(t, 0)
	var out backedUp
	if err := json.Unmarshal([]byte(engine(t, "", "--server", e, "backup", dir, "--json").wants(t, 0).out), &out); err != nil || out.Previous == "" || out.Position == 0 || out.Files != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	engine(t, "", "backup", "verify", dir).wants(t, 0, "whole: 2 files")
	engine(t, "", "backup", "verify", t.TempDir()).wants(t, 1, "there is no backup")
	engine(t, "", "restore", dir).wants(t, 2, "--dir", "--nats-url")
	engine(t, "", "restore", dir, "--dir", into, "--replicas", "3").wants(t, 2, "--nats-url")
	engine(t, "", "restore", dir, "--dir", into, "--to", "4096", "--at", "10m").wants(t, 2)
	engine(t, "", "restore", filepath.Join(dir, "none"), "--dir", into).wants(t, 1, "none")
	engine(t, "", "restore", dir, "--dir", into).wants(t, 0, "read back and compared", "2 items", "engine serve --dir "+into)
	var r embedded.Restored
	again := engine(t, "", "restore", dir, "--dir", into+"2", "--to", "8192", "--json").wants(t, 0)
	if err := json.Unmarshal([]byte(again.out), &r); err != nil || r.End || r.Last < 8192 || r.Items > 1 {
		t.Errorf("%+v, %v", r, err)
	}
	engine(t, "", "restore", dir, "--dir", into).wants(t, 1, "is not empty")
}

// The backup of a namespace becomes another one, in the folder of the engine.
func TestBackupAndRestoreOfANamespace(t *testing.T) {
	need.NoReload(t)
	need.Seconds(t)
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "b")
	begin := func() (stop func()) {
		e, err := embedded.Start(t.Context(), embedded.Options{Dir: data, NATSListen: "127.0.0.1:0", HTTP: config.Off})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NATS_URL", e.URL())
		return func() {
			if err := e.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	listed := func(ns, want string) {
		t.Helper()
		need.Eventually(t, ns+" lists "+want, func() bool {
			return strings.Contains(engine(t, "", "list", "--namespace", ns, "--request-timeout", "1s").out, want)
		})
	}
	stop := begin()
	engine(t, "", "namespace", "add", "acme").wants(t, 0)
	need.Eventually(t, "acme runs", func() bool {
		return strings.Contains(engine(t, "", "namespace", "show", "acme").out, "running")
	})
	engine(t, "", "submit", "email", "--namespace", "acme", "--id", anID).wants(t, 0)
	engine(t, "", "backup", dir, "--namespace", "acme").wants(t, 0, "backed up "+dir)
	engine(t, "", "backup", dir).wants(t, 1, "backup of another log", "work-acme")
	engine(t, "", "backup", "verify", dir).wants(t, 0, "whole: 2 files")
	engine(t, "", "restore", dir, "--dir", data, "--namespace", "acme2").wants(t, 1, "folder_in_use")
	stop()
	engine(t, "", "restore", dir, "--dir", data+"2").wants(t, 1, "of the namespace acme")
	engine(t, "", "restore", dir, "--dir", data, "--namespace", "acme").wants(t, 1, "nothing is restored over what exists")
	engine(t, "", "restore", dir, "--dir", data, "--namespace", "acme2").wants(t, 0, "1 item;", "engine namespace add acme2")
	engine(t, "", "restore", dir, "--dir", data+"2", "--namespace", "default").wants(t, 0, "1 item;", "engine serve --dir "+data+"2")
	stop = begin()
	defer stop()
	engine(t, "", "namespace", "add", "acme2").wants(t, 0)
	listed("acme2", anID)
	listed("acme", anID)
}

// On an existing NATS with the printed permissions, an operator backs up, and the engine's
// own user restores.
func TestBackupOfAnExternalServer(t *testing.T) {
	need.Seconds(t)
	start := func(addr string) {
		e, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), HTTP: config.Off, NATSURL: "nats://" + addr, NATSOptions: []nats.Option{nats.UserInfo("engine", natsPassword)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Stop(context.Background()) })
	}
	url := func(user, addr string) string {
		return "nats://" + user + ":" + strings.ReplaceAll(natsPassword, " ", "%20") + "@" + addr
	}
	from, to := external(t), external(t)
	start(from)
	engine(t, "", "--server", url("submit-user", from), "submit", "email", "{}").wants(t, 0, "queued")
	dir := filepath.Join(t.TempDir(), "b")
	engine(t, "", "--server", url("operate-user", from), "backup", dir).wants(t, 0, "backed up")
	engine(t, "", "--server", url("read-user", from), "backup", dir+"2").wants(t, 1, "operate")
	engine(t, "", "restore", dir, "--nats-url", url("engine", to)).wants(t, 0, "read back and compared", "1 item;")
	engine(t, "", "restore", dir, "--nats-url", url("engine", to)).wants(t, 0, "nothing to do")
	start(to)
	engine(t, "", "--server", url("read-user", to), "list").wants(t, 0, "email")
}
