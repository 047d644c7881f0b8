package playground

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/internal/need"
)

// script draws commands from a seed: most of them make sense.
func script(seed uint64, steps int) (lines []string) {
	r := rand.New(rand.NewPCG(seed, 1))
	of := func(from ...string) string { return from[r.IntN(len(from))] }
	typ := func() string { return of("email", "invoice", "render") }
	number := func() string { return of("", "", "", fmt.Sprint(1+r.IntN(20))) }
	for range steps {
		switch r.IntN(12) {
		case 0, 1, 2, 3:
			lines = append(lines, fmt.Sprintf(`submit %s {"priority":%d,"dedup_key":%q,"tenant":%q,"delay_ms":%d,"max_attempts":%d}`,
				typ(), r.IntN(10), of("", "", "", "a", "b"), of("", "", "acme", "é<&>"), r.IntN(2)*r.IntN(20000), r.IntN(4)))
		case 4, 5:
			lines = append(lines, "complete "+number())
		case 6, 7:
			lines = append(lines, fmt.Sprintf(`fail %s {"code":%q}`, number(), of("", "network", "logic", "rate_limited", "timeout", "own")))
		case 8:
			lines = append(lines, of("lose", "cancel "+fmt.Sprint(1+r.IntN(20)), "slots "+fmt.Sprint(r.IntN(6)), "pause "+typ(), "resume "+typ(), "reset "+typ()))
		case 9, 10:
			lines = append(lines, "advance "+of("next", "1ms", "3s", "17s", "2m", "1h"))
		case 11:
			lines = append(lines, fmt.Sprintf("type %s %s", typ(), of(
				`{"backoff":{"initial_ms":333,"factor":1.7,"max_ms":60000,"jitter":0.3}}`, `{"capacity":2}`, `{"circuit":{"consecutive":2,"cooldown_ms":5000,"probes":1}}`,
				`{"circuit":{"ratio":0.5,"min_runs":3,"window_ms":30000}}`, `{"rates":[{"per":"type","at":"dispatch","n":2,"interval_ms":7000}]}`, `{"group_capacity":1}`,
				`{"rates":[{"per":"tenant","at":"submit","n":3,"interval_ms":9000}]}`, `{"max_queued":8}`, `{"codes":{"own":{"max_attempts":5,"delay_factor":2.5}}}`)))
		}
	}
	return lines
}

// inNode executes sessions of commands, a JSON array of arrays, and prints a reply a line.
const inNode = `
const { readFileSync } = require('fs');
const { gunzipSync } = require('zlib');
require(process.argv[2] + '/wasm_exec.js');
const go = new Go();
WebAssembly.instantiate(gunzipSync(readFileSync(process.argv[2] + '/playground.wasm.gz')), go.importObject).then(({ instance }) => {
	go.run(instance);
	const out = [];
	for (const lines of JSON.parse(readFileSync(0, 'utf8'))) {
		const session = streamwrightPlayground();
		for (const line of lines) out.push(session(line));
	}
	process.stdout.write(out.join('\n') + '\n', () => process.exit(0));
});`

// Compiled to WebAssembly, the core decides the same, byte for byte: each command's events,
// refusal, items and digest.
func TestWebAssemblyDecidesTheSame(t *testing.T) {
	need.Seconds(t)
	node := need.Program(t, "node", "nodejs")
	dir := t.TempDir()
	if out, err := exec.Command("go", "run", "./make", dir).CombinedOutput(); err != nil {
		t.Fatalf("make the playground: %v\n%s", err, out)
	}
	var sessions [][]string
	for seed := range uint64(4) {
		sessions = append(sessions, script(seed, 150))
	}
	asked, err := json.Marshal(sessions)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "-e", inNode, "-", filepath.ToSlash(dir))
	cmd.Stdin = bytes.NewReader(asked)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", node, err, complaints.String())
	}
	replies := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	refused, made := 0, 0
	for seed, lines := range sessions {
		s := begin(t)
		for i, line := range lines {
			if len(replies) == 0 {
				t.Fatalf("seed %d, command %d: Node has no reply", seed, i)
			}
			r := s.Do(line)
			native, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if replies[0] != string(native) {
				t.Fatalf("seed %d, command %d, %s: natively\n%s, in WebAssembly\n%s", seed, i, line, native, replies[0])
			}
			replies = replies[1:]
			if made += len(r.Events); r.Refused != "" {
				refused++
			}
		}
	}
	if t.Logf("%d events, %d commands refused", made, refused); made < 1000 || refused > 300 {
		t.Errorf("of 600 commands %d are refused, and there are %d events: the scripts say little", refused, made)
	}
}
