//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SIGHUP puts a changed tokens file into force, unless anything is wrong.
func TestServeReadsTokensAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens")
	file := filepath.Join(dir, "engine.toml")
	put := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write := func(token string) { put(path, "reader "+token+" read\n") }
	put(file, "[limits]\nmax_running = 5\n")
	const before, after = "0123456789-abcdef-before", "0123456789-abcdef-after"
	write(before)
	t.Setenv("WORK_TOKENS", "other 0123456789-abcdef-environment read")
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	logged, log := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, []string{"serve", "--config", file, "--dir", dir, "--nats-listen", "off", "--http", "127.0.0.1:0", "--http-tokens", path}, strings.NewReader(""), in, log)
		in.Close()
		log.Close()
		ended <- code
	}()
	url := ""
	lines := bufio.NewScanner(out)
	for url == "" && lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "metrics "); ok {
			url = strings.TrimSpace(rest)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	said := make(chan string, 1000)
	go func() {
		for s := bufio.NewScanner(logged); s.Scan(); {
			said <- s.Text()
		}
	}()
	// reload sends the signal, and waits for what the log says of it.
	reload := func(want string) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for end := time.After(time.Minute); ; {
			select {
			case line := <-said:
				if strings.Contains(line, want) {
					return
				}
			case <-end:
				t.Fatalf("the log does not say %q", want)
			}
		}
	}
	status := func(token string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := [3]int{status(before), status(after), status("0123456789-abcdef-environment")}; got != [3]int{200, 401, 200} {
		t.Errorf("at first: %v", got)
	}
	write(after)
	put(file, "[limits]\nmax_running = 0\n")
	reload("the configuration was not read again")
	if got := [2]int{status(before), status(after)}; got != [2]int{200, 401} {
		t.Errorf("after SIGHUP with a bad file: %v", got)
	}
	put(file, "[limits]\nmax_running = 6\n")
	reload("changed, needs a restart: limits.max_running")
	if got := [3]int{status(before), status(after), status("0123456789-abcdef-environment")}; got != [3]int{401, 200, 200} {
		t.Errorf("after SIGHUP: %v", got)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
