package wire

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Command checks a report against every bound and makes the command of it.
// random is for the jitter of a retry. Texts that are too long are cut, so that a
// failure can always be told; a result that is too large is refused. The error is an
// *events.Error.
func (r Report) Command(random uint64) (core.Command, error) {
	run, err := r.run()
	if err != nil {
		return nil, err
	}
	switch r.Event {
	case ReportStart:
		return core.Start{Run: run}, nil
	case ReportComplete:
		if err := checkResult(r.Result); err != nil {
			return nil, err
		}
		return core.Complete{Run: run, Result: r.Result}, nil
	case ReportFail:
		return r.fail(run, random)
	case ReportRelease:
		return core.Release{Run: run, Reason: cut(r.Reason, events.MaxNameLen)}, nil
	}
	c, err := r.flow(run)
	if c == nil && err == nil {
		err = events.Refuse(events.CodeBadRequest, "%q is no report: use %s, %s, %s, %s, %s, %s, %s or %s", events.Clip(r.Event, maxQuoted),
			ReportStart, ReportComplete, ReportFail, ReportRelease, ReportSnooze, ReportSpawn, ReportProgress, ReportCheckpoint)
	}
	return c, err
}

// run reads which run the report is about.
func (r *Report) run() (core.Run, error) {
	id, err := parseID(r.ID)
	if err != nil {
		return core.Run{}, err
	}
	token, err := ParseToken(r.Token)
	if err != nil {
		return core.Run{}, err
	}
	worker, err := events.ParseWorkerID(r.Worker)
	if err != nil {
		return core.Run{}, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if r.Attempt < 0 {
		return core.Run{}, events.Refuse(events.CodeBadRequest, "attempt is %d: send the attempt of the assigned item back, or leave it out", r.Attempt)
	}
	return core.Run{ID: id, Token: token, Worker: worker, Attempt: events.Attempt(r.Attempt)}, nil
}

// ParseToken reads a token that must be there. The error is an *events.Error.
func ParseToken(s string) (events.Token, error) {
	var t events.Token
	if err := t.UnmarshalText([]byte(s)); err != nil {
		return 0, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if t == 0 {
		return 0, events.Refuse(events.CodeBadRequest, "the report has no token: send the token of the assigned item back unchanged")
	}
	return t, nil
}

func (r *Report) fail(run core.Run, random uint64) (core.Command, error) {
	if r.RetryAfterMS < 0 || r.RetryAfterMS > events.MaxDelay.Milliseconds() {
		return nil, events.Refuse(events.CodeBadTime, "retry_after_ms is %d: it must be 0 to %d", r.RetryAfterMS, events.MaxDelay.Milliseconds())
	}
	return core.Fail{
		Run: run, Error: cut(r.Error, events.MaxErrorText), Code: cut(r.Code, events.MaxNameLen),
		Retryable: r.Retryable == nil || *r.Retryable, RetryAfter: time.Duration(r.RetryAfterMS) * time.Millisecond,
		Random: random,
	}, nil
}

func checkResult(result json.RawMessage) error {
	if len(result) > events.MaxResultBytes {
		return events.Refuse(events.CodeTooLarge, "the result has %d bytes: at most %d are allowed; store it elsewhere and report a reference to it", len(result), events.MaxResultBytes)
	}
	if len(result) > 0 && !(json.Valid(result) && utf8.Valid(result)) {
		return events.Refuse(events.CodeBadRequest, "the result is no JSON document in UTF-8: %s", events.DocumentFault(result))
	}
	return nil
}

// cut shortens s to at most so many bytes of valid UTF-8.
func cut(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
