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

// SIGHUP puts a changed tokens file into force.
func TestServeReadsTokensAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens")
	write := func(token string) {
		if err := os.WriteFile(path, []byte("reader "+token+" read\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const before, after = "0123456789-abcdef-before", "0123456789-abcdef-after"
	write(before)
	t.Setenv("WORK_TOKENS", "other 0123456789-abcdef-environment read")
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	logged, log := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, []string{"serve", "--dir", dir, "--nats-listen", "off", "--http", "127.0.0.1:0", "--http-tokens", path}, strings.NewReader(""), in, log)
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
	reread := make(chan struct{})
	go func() {
		seen := false
		for s := bufio.NewScanner(logged); s.Scan(); {
			if !seen && strings.Contains(s.Text(), "has been read again") {
				seen = true
				close(reread)
			}
		}
	}()
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
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reread:
	case <-time.After(10 * time.Second):
		t.Fatal("the tokens were not read again")
	}
	if got := [3]int{status(before), status(after), status("0123456789-abcdef-environment")}; got != [3]int{401, 200, 200} {
		t.Errorf("after SIGHUP: %v", got)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
