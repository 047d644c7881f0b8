package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Reports and their answers make two requests per item. The code below writes and
// reads the most common ones (claim, complete, release and their answers) without
// reflection: the same bytes, the same values. Everything else is left to
// encoding/json.

// EncodeReports is json.Marshal of the reports, with < > & as they are.
func EncodeReports(b []byte, reports []Report) ([]byte, error) {
	b = append(b, '[')
	for i := range reports {
		if i > 0 {
			b = append(b, ',')
		}
		var ok bool
		if b, ok = appendReport(b, &reports[i]); ok {
			continue
		}
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(&reports[i]); err != nil {
			return nil, err
		}
		b = append(b, bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})...)
	}
	return append(b, ']'), nil
}

func appendReport(b []byte, r *Report) ([]byte, bool) {
	if !r.plain() {
		return b, false
	}
	b = append(append(b, `{"id":"`...), r.ID...)
	b = append(append(b, `","token":"`...), r.Token...)
	b = append(append(b, `","worker":"`...), r.Worker...)
	if r.Session != "" {
		b = append(append(b, `","session":"`...), r.Session...)
	}
	b = append(append(b, `","event":"`...), r.Event...)
	b = append(b, '"')
	if r.Attempt != 0 {
		b = strconv.AppendInt(append(b, `,"attempt":`...), int64(r.Attempt), 10)
	}
	if r.Start {
		b = append(b, `,"start":true`...)
	}
	if r.Reason != "" {
		b = append(append(append(b, `,"reason":"`...), r.Reason...), '"')
	}
	return append(b, '}'), true
}

// plain reports whether appendReport writes all of a report.
func (r *Report) plain() bool {
	f := &r.ReportFlow
	return len(r.Result) == 0 && r.Error == "" && r.Code == "" && r.Retryable == nil && r.RetryAfterMS == 0 &&
		f.Percent == 0 && f.Message == "" && len(f.Checkpoint) == 0 && f.DelayMS == 0 && len(f.Children) == 0 && f.Continuation == nil && f.ChildPolicy == "" &&
		plainText(r.ID) && plainText(r.Token) && plainText(r.Worker) && plainText(r.Session) && plainText(r.Event) && plainText(r.Reason)
}

// plainText reports whether a JSON string of s is s in quotes, whichever way it
// is written.
func plainText[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// DecodeReports reads an array of reports in the form that EncodeReports writes
// without help. ok is false for any other.
func DecodeReports(data []byte) (reports []Report, ok bool) {
	s := quick{b: data}
	// At least so many bytes each, so that a short text does not ask for much.
	reports = make([]Report, 0, len(data)/128+1)
	var last Report // whose worker and session are most likely the next one's
	s.list(func() {
		var r Report
		s.lit(`{"id":"`)
		r.ID = string(s.text())
		s.lit(`,"token":"`)
		r.Token = string(s.text())
		s.lit(`,"worker":"`)
		r.Worker = again(s.text(), last.Worker)
		if s.opt(`,"session":"`) {
			r.Session = again(s.text(), last.Session)
		}
		s.lit(`,"event":"`)
		r.Event = reportEvent(s.text(), last.Event)
		if s.opt(`,"attempt":`) {
			r.Attempt = int(s.int())
		}
		if s.opt(`,"start":`) {
			r.Start = s.opt(`true`)
			s.bad = s.bad || !r.Start
		}
		if s.opt(`,"reason":"`) {
			r.Reason = string(s.text())
		}
		s.lit(`}`)
		last = r
		reports = append(reports, r)
	})
	if !s.whole() {
		return nil, false
	}
	return reports, true
}

// again returns text as a string: last itself, if they are equal.
func again(text []byte, last string) string {
	if string(text) == last {
		return last
	}
	return string(text)
}

func reportEvent(text []byte, last string) string {
	switch string(text) {
	case ReportClaim:
		return ReportClaim
	case ReportComplete:
		return ReportComplete
	}
	return again(text, last)
}

// EncodeReported is json.Marshal of the answers.
func EncodeReported(b []byte, answers []Reported) ([]byte, error) {
	b = append(b, '[')
	for i := range answers {
		if i > 0 {
			b = append(b, ',')
		}
		var ok bool
		if b, ok = appendReported(b, &answers[i]); ok {
			continue
		}
		data, err := json.Marshal(&answers[i])
		if err != nil {
			return nil, err
		}
		b = append(b, data...)
	}
	return append(b, ']'), nil
}

func appendReported(b []byte, r *Reported) ([]byte, bool) {
	if r.Error != nil || len(r.Checkpoint) > 0 || r.Continuation != nil || !plainText(string(r.Position)) {
		return b, false
	}
	if y := r.Deadline.Year(); y < 0 || y > 9999 || r.Deadline.Location() != time.UTC {
		return b, false
	}
	b = strconv.AppendBool(append(b, `{"ok":`...), r.OK)
	if r.Attempt != 0 {
		b = strconv.AppendInt(append(b, `,"attempt":`...), int64(r.Attempt), 10)
	}
	if !r.Deadline.IsZero() {
		b = append(r.Deadline.AppendFormat(append(b, `,"deadline":"`...), time.RFC3339Nano), '"')
	}
	if r.TimeoutMS != 0 {
		b = strconv.AppendInt(append(b, `,"timeout_ms":`...), r.TimeoutMS, 10)
	}
	if r.State != events.StateNone {
		b = append(append(append(b, `,"state":"`...), r.State.String()...), '"')
	}
	if r.Position != "" {
		b = append(append(append(b, `,"position":"`...), r.Position...), '"')
	}
	return append(b, '}'), true
}

// DecodeReported reads an array of answers into list, in the form that
// EncodeReported writes without help. ok is false for any other.
func DecodeReported(list []Reported, data []byte) (_ []Reported, ok bool) {
	s := quick{b: data}
	s.list(func() {
		var r Reported
		switch {
		case s.opt(`{"ok":true`):
			r.OK = true
		default:
			s.lit(`{"ok":false`)
		}
		if s.opt(`,"attempt":`) {
			r.Attempt = int(s.int())
		}
		if s.opt(`,"deadline":"`) {
			s.bad = r.Deadline.UnmarshalText(s.text()) != nil || s.bad
		}
		if s.opt(`,"timeout_ms":`) {
			r.TimeoutMS = s.int()
		}
		if s.opt(`,"state":"`) {
			s.bad = r.State.UnmarshalText(s.text()) != nil || s.bad
		}
		if s.opt(`,"position":"`) {
			r.Position = Position(s.text())
		}
		s.lit(`}`)
		list = append(list, r)
	})
	return list, s.whole()
}

// quick reads JSON of a known layout. Anything that deviates from it sets bad.
type quick struct {
	b   []byte
	i   int
	bad bool
}

func (s *quick) opt(lit string) bool {
	if s.bad || len(s.b)-s.i < len(lit) || string(s.b[s.i:s.i+len(lit)]) != lit {
		return false
	}
	s.i += len(lit)
	return true
}

func (s *quick) lit(lit string) { s.bad = !s.opt(lit) || s.bad }

// list reads an array that is not empty.
func (s *quick) list(element func()) {
	s.lit(`[`)
	for !s.bad {
		if element(); s.opt(`]`) {
			return
		}
		s.lit(`,`)
	}
}

// whole reports whether all was read as expected.
func (s *quick) whole() bool { return !s.bad && s.i == len(s.b) }

// text reads up to the next quote. An escape in the text sets bad.
func (s *quick) text() []byte {
	n := bytes.IndexByte(s.b[s.i:], '"')
	if s.bad || n < 0 || !plainText(s.b[s.i:s.i+n]) {
		s.bad = true
		return nil
	}
	text := s.b[s.i : s.i+n]
	s.i += n + 1
	return text
}

// int reads a whole number that is not negative.
func (s *quick) int() int64 {
	start, n := s.i, int64(0)
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' && s.i-start < 18 {
		n = 10*n + int64(s.b[s.i]-'0')
		s.i++
	}
	if s.i == start || s.b[start] == '0' && s.i-start > 1 {
		s.bad = true
	}
	return n
}
