package core

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// goldenProtection lives through what holds work back: retries by code, poison,
// circuits of a type and of a worker, a pause.
func goldenProtection(w *world) {
	tick := func(d time.Duration) { w.now = w.now.Add(d) }
	tick(time.Hour)
	w.s.SetLimits(events.Limits{WorkerCircuit: events.CircuitSettings{Consecutive: 2, Probes: 1}})
	token := uint64(1000)
	claim := func(id events.ID, worker events.WorkerID) Run {
		token++
		tok := events.NewToken(3, token)
		w.do(Claim{ID: id, Token: tok, Worker: worker, Start: true})
		return Run{ID: id, Token: tok, Worker: worker}
	}
	fail := func(r Run, code string) {
		w.do(Fail{Run: r, Error: "it went wrong", Code: code, Retryable: true, Random: 1 << 63})
		tick(time.Minute)
	}
	set := events.DefaultTypeSettings()
	set.PoisonAfter = 2
	set.Codes = map[string]events.CodePolicy{"flaky": {MaxAttempts: 7, DelayFactor: 3}}
	set.Circuit = events.CircuitSettings{Consecutive: 3, Ratio: 0.75, Window: events.Millis(60_000), MinRuns: 20, Cooldown: events.Millis(10_000), MaxCooldown: events.Millis(15_000), Probes: 1}
	w.do(Configure{Type: "charge", Source: events.SourceAPI, Settings: set})

	slow := w.submit(Submit{Type: "charge"}) // its timeout grows; a busy service waits twice as long
	fail(claim(slow, "w11"), events.FailOutOfMemory)
	fail(claim(slow, "w11"), events.FailRateLimited)
	w.do(Complete{Run: claim(slow, "w11")})
	bad := w.submit(Submit{Type: "charge"})
	w.do(ExpireLease{ID: bad, Token: claim(bad, "w11").Token})
	tick(time.Second)
	w.do(ExpireLease{ID: bad, Token: claim(bad, "w11").Token}) // poisoned

	a, b, c := w.submit(Submit{Type: "charge"}), w.submit(Submit{Type: "charge"}), w.submit(Submit{Type: "charge"})
	fail(claim(a, "w11"), "flaky") // the third in a row: open
	w.do(DueCircuit{Type: "charge"})
	fail(claim(b, "w12"), "flaky") // a probe: open again, for longer
	w.do(DueCircuit{Type: "charge"})
	w.do(Complete{Run: claim(c, "w12")}) // closed

	w.do(PauseType{Type: "charge", Reason: "the provider is down", By: "ops"})
	tick(time.Minute)
	w.do(ResumeType{Type: "charge", By: "ops"})

	set.Circuit = events.CircuitSettings{}
	w.do(Configure{Type: "charge", Source: events.SourceAPI, Settings: set})
	fail(claim(a, "w13"), "flaky")
	w.do(Complete{Run: claim(a, "w12")})
	fail(claim(b, "w13"), "flaky") // w13 fails what w12 completes
	w.do(DueCircuit{Worker: "w13"})
	w.do(Complete{Run: claim(b, "w13")})
	fail(claim(w.submit(Submit{Type: "charge"}), "w14"), "flaky") // stays in the books
}

// holdBack makes the largest events of what holds work back.
func (w *world) holdBack(typ events.Type, worker events.WorkerID, text string) {
	w.now = w.now.Add(events.MaxDelay / 2)
	w.do(PauseType{Type: typ, Reason: text, By: text})
	w.do(ResumeType{Type: typ, By: text})
	set := events.DefaultTypeSettings()
	set.Circuit = events.CircuitSettings{Ratio: 0.12345678901234567, MinRuns: 1, Window: events.Millis(86_399_999), Cooldown: events.Millis(86_399_999), MaxCooldown: events.Millis(86_399_999), Probes: events.MaxCircuitProbes}
	set.Codes = map[string]events.CodePolicy{}
	for i := range events.MaxCodes {
		code := make([]byte, events.MaxNameLen)
		for j := range code {
			code[j] = '<' // 6 bytes in JSON
		}
		code[0] = byte('0' + i)
		if i >= 12 {
			code[0], code[1] = byte('A'+i%26), byte('A'+i/26)
		}
		set.Codes[string(code)] = events.CodePolicy{MaxAttempts: 1000, DelayFactor: 12.345678901234567, TimeoutFactor: 12.345678901234567, TimeoutMax: events.DurationOf(events.MaxTimeout)}
	}
	w.do(Configure{Type: typ, Source: events.SourceAPI, Settings: set})
	id := w.submit(Submit{Type: typ})
	tok := events.NewToken(1<<24-1, 99)
	w.do(Claim{ID: id, Token: tok, Worker: worker, Start: true})
	w.do(Fail{Run: Run{ID: id, Token: tok, Worker: worker}, Code: events.FailNetwork, Retryable: true, Random: 1<<64 - 1})
	w.now = w.now.Add(48 * time.Hour)
	w.do(DueCircuit{Type: typ})
	w.do(ResetCircuit{Type: typ})
}
