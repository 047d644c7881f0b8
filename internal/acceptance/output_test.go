package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
)

// lines are numbered lines, which no two places of a text share.
func lines(name string, n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "%s %06d größer als €\n", name, i)
	}
	return b.Bytes()
}

// A worker is killed while its child writes output. The follower is told that what it has is
// void, and has the output of the next run, byte for byte, with nothing of the first in it.
func TestOutputOfAKilledWorker(t *testing.T) {
	t.Parallel()
	s := serve(t, "[types.job]\nlease = \"1s\"\n")
	dir := t.TempDir()
	all := lines("second", 5000)
	if err := os.WriteFile(filepath.Join(dir, "second"), all, 0o600); err != nil {
		t.Fatal(err)
	}
	first := begin(t, s.url(), "work", "job", "--stream", "--", "sh", "-c", "while echo first; do :; done")
	id := s.submit(streamwright.Item{Type: "job"})
	ctx := testContext(t)
	cmd := exec.CommandContext(ctx, binary, "output", id, "--follow")
	cmd.Env = environ(s.url())
	var said bytes.Buffer
	cmd.Stderr = &said
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 6000)
	if _, err := io.ReadFull(stdout, head); err != nil || string(head) != strings.Repeat("first\n", 1000) {
		t.Fatalf("the first run: %q…, %v", head[:60], err)
	}
	first.kill()
	begin(t, s.url(), "work", "job", "--stream", "--", "cat", dir+"/second")
	rest, err := io.ReadAll(stdout)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	old, ok := bytes.CutSuffix(rest, all)
	if old = bytes.TrimSuffix(bytes.ReplaceAll(old, []byte("first\n"), nil), []byte("firs")); !ok || len(bytes.Trim(old, "first")) > 0 {
		t.Errorf("behind what the first run wrote: %d bytes of %d, and %.100q", len(rest), len(all), old)
	}
	if got := said.String(); !strings.Contains(got, "--- a run begins (attempt 2): its output takes the place of what is above ---") {
		t.Errorf("it said %q", got)
	}
	if got := cli(t, s.url(), "output", id).wants(t, 0); got.out != string(all) || got.errs != "" {
		t.Errorf("the output has %d bytes of %d, and %q", len(got.out), len(all), got.errs)
	}
	if it := s.wait(id, events.StateCompleted); it.Attempt != 2 || string(it.Result) != fmt.Sprintf(`{"output":{"bytes":%d}}`, len(all)) {
		t.Errorf("attempt %d: %s", it.Attempt, it.Result)
	}
}

// An engine is killed again and again while a child writes output. What the child has written
// is the output, byte for byte, and so is what a slow reader has seen.
func TestOutputOfAKilledEngine(t *testing.T) {
	t.Parallel()
	s := serve(t, "[types.job]\nlease = \"1m\"\n[limits]\noutput_item_size = \"8MiB\"\n")
	dir := t.TempDir()
	all, part := lines("line", 60_000), 20_000
	for i := range 3 {
		size := len(all) / 60_000 * part
		if err := os.WriteFile(fmt.Sprintf("%s/part%d", dir, i), all[i*size:(i+1)*size], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begin(t, s.url(), "work", "job", "--stream", "--", "sh", "-c", fmt.Sprintf(`for i in 0 1 2; do
		cat %[1]s/part$i; touch %[1]s/wrote$i; done`, dir))
	id := s.submit(streamwright.Item{Type: "job"})
	var got bytes.Buffer
	resets, followed := 0, make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() {
		followed <- s.c.FollowOutput(ctx, id, 0, func(o streamwright.OutputChunk) error {
			if o.Reset {
				resets++
				got.Reset()
			}
			b, err := o.Bytes()
			got.Write(b)
			time.Sleep(time.Millisecond) // it reads slowly
			return err
		})
	}()
	for i := range kills(2) {
		eventually(t, "the child writes", func() bool {
			_, err := os.Stat(fmt.Sprintf("%s/wrote%d", dir, min(i, 1)))
			return err == nil
		})
		s.p.kill()
		s.begin()
		eventually(t, "the engine is ready again", func() bool { return strings.Contains(s.p.log.String(), "engine ready") })
	}
	if err := <-followed; err != nil || resets != 1 || !bytes.Equal(got.Bytes(), all) {
		t.Errorf("followed %d bytes of %d, %d resets, %v", got.Len(), len(all), resets, err)
	}
	if out := cli(t, s.url(), "output", id).wants(t, 0); out.out != string(all) {
		t.Errorf("the output has %d bytes of %d", len(out.out), len(all))
	}
	if it := s.wait(id, events.StateCompleted); it.Attempt != 1 || string(it.Result) != fmt.Sprintf(`{"output":{"bytes":%d}}`, len(all)) {
		t.Errorf("attempt %d: %s", it.Attempt, it.Result)
	}
}
