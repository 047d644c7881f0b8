package wire

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// submitHeaders are the headers that a submission may have, in the order in
// which error texts list them.
var submitHeaders = []string{
	HeaderID, HeaderPriority, HeaderDedupKey, HeaderIdempotencyKey,
	HeaderAvailableAt, HeaderDelay, HeaderMaxAttempts, HeaderTimeout,
	HeaderCapabilities, HeaderSource, HeaderTrigger, HeaderTenant, HeaderLabels,
	HeaderAfter, HeaderAfterPolicy, HeaderDedupPolicy, HeaderDedupWindow, HeaderExpiresAt, HeaderBatch, HeaderEstimatedDuration,
}

const workPrefix = "Work-"

// headerNamespace is refused: who publishes would not learn whether the other namespace
// accepts what it is handed.
const headerNamespace = "Work-Namespace"

// ServerHeader returns the first header, by name, that shows that a message comes
// from a NATS server and not from a client: a status, or any Nats-… header but
// [HeaderRequestInfo]. It returns the empty string if there is none.
func ServerHeader(header map[string][]string) string {
	found := ""
	for name := range header {
		servers := strings.EqualFold(name, "Status") || len(name) > 5 && strings.EqualFold(name[:5], "Nats-") && name != HeaderRequestInfo
		if servers && (found == "" || name < found) {
			found = name
		}
	}
	return found
}

// ParseSubmission reads a submission published on work.submit.<type>, or as
// the intake stream stores it (work.intake.<p>.<type>). The body is kept as it
// is, not copied. Header names are matched whatever their case; those that
// don't begin with Work- (except traceparent) are left alone, an empty value
// is as good as none, and Work-Capabilities and Work-Labels may come several
// times.
//
// It only reads: (Submit).Command checks the fields against their bounds. The
// error is an *events.Error; the Submit has whatever could be read beside it,
// the type included, for the record of a rejection.
func ParseSubmission(subject string, header map[string][]string, body []byte, names Names) (Submit, error) {
	s := Submit{Params: json.RawMessage(body)}
	typ, ok := submittedType(subject, names)
	if !ok {
		return s, events.Refuse(events.CodeBadType, "subject %q names no type: publish to %s with one token for the type", events.Clip(subject, maxQuoted), names.SubmitAll())
	}
	s.Type = typ
	if names.answered(header, body) {
		return s, events.Refuse(events.CodeBadRequest, "this is no submission but what a NATS server answered, or a message of one of the engine's own streams: somebody named %s as the subject of a reply", events.Clip(subject, maxQuoted))
	}
	if len(body) == 0 && bare(header) {
		return s, events.Refuse(events.CodeBadRequest, "an empty message without headers is no submission: publish the params as JSON, null if there are none")
	}
	var first error
	for name, values := range header {
		// All headers are read, so that one bad header does not hide the others
		// from the record; map order must not choose the error that is reported.
		if err := s.readHeader(name, values); err != nil && (first == nil || err.Error() < first.Error()) {
			first = err
		}
	}
	return s, first
}

// bare reports whether a header has nothing that a submitter writes. With an empty body such a
// message can't be told from a NATS server's status ("no messages"), which a stream stores
// without the status itself.
func bare(header map[string][]string) bool {
	for name := range header {
		if _, ours := canonicalHeader(name); ours || strings.EqualFold(name, "Nats-Msg-Id") {
			return false
		}
	}
	return true
}

// submittedType cuts the type from a submission's subject.
func submittedType(subject string, names Names) (string, bool) {
	rest, ok := strings.CutPrefix(subject, names.Prefix)
	if !ok {
		return "", false
	}
	if typ, ok := strings.CutPrefix(rest, ".submit."); ok {
		return typ, typ != ""
	}
	rest, ok = strings.CutPrefix(rest, ".intake.")
	if !ok {
		return "", false
	}
	_, typ, ok := strings.Cut(rest, ".")
	return typ, ok && typ != ""
}

// readHeader takes one header into the submission.
func (s *Submit) readHeader(name string, values []string) error {
	name, ours := canonicalHeader(name)
	if !ours {
		return nil
	}
	switch name {
	case HeaderCapabilities:
		for _, v := range values {
			s.Capabilities = append(s.Capabilities, splitList(v)...)
		}
		return nil
	case HeaderAfter:
		for _, v := range values {
			s.After = append(s.After, splitList(v)...)
		}
		return nil
	case HeaderLabels:
		return s.readLabels(values)
	}
	if len(values) > 1 {
		return events.Refuse(events.CodeBadHeader, "header %s comes %d times: send it once", name, len(values))
	}
	if len(values) == 0 || values[0] == "" {
		return nil
	}
	return s.readValue(name, values[0])
}

// canonicalHeader spells a header as this package does, and says whether it is
// meant for the engine at all.
func canonicalHeader(name string) (string, bool) {
	if len(name) >= len(workPrefix) && strings.EqualFold(name[:len(workPrefix)], workPrefix) {
		for _, h := range submitHeaders {
			if strings.EqualFold(h, name) {
				return h, true
			}
		}
		return name, true
	}
	if strings.EqualFold(name, HeaderTrace) {
		return HeaderTrace, true
	}
	return "", false
}

func (s *Submit) readValue(name, v string) (err error) {
	switch name {
	case HeaderID:
		s.ID = v
	case HeaderPriority:
		p, err := events.ParsePriority(v)
		if err != nil {
			return events.Refuse(events.CodeBadPriority, "header %s must be 0 to 9 (higher first), or low, medium, high", name)
		}
		n := Priority(p)
		s.Priority = &n
	case HeaderDedupKey:
		s.DedupKey = v
	case HeaderIdempotencyKey:
		s.IdempotencyKey = v
	case HeaderAvailableAt:
		if s.AvailableAt, err = time.Parse(time.RFC3339, v); err != nil {
			return events.Refuse(events.CodeBadTime, "header %s must be a time in RFC 3339, such as 2030-01-31T08:00:00Z", name)
		}
	case HeaderDelay:
		s.Delay, err = parseDuration(name, v)
	case HeaderTimeout:
		s.Timeout, err = parsePositive(name, v)
	case HeaderMaxAttempts:
		if s.MaxAttempts, err = strconv.Atoi(v); err != nil || s.MaxAttempts < 1 {
			return events.Refuse(events.CodeBadHeader, "header %s must be a number of attempts, 1 to %d", name, events.MaxAttemptsCeiling)
		}
	case HeaderSource:
		s.Source = v
	case HeaderTrigger:
		s.Trigger = v
	case HeaderTenant:
		s.Tenant = v
	case HeaderTrace:
		s.Trace = v
	case HeaderAfterPolicy, HeaderDedupPolicy, HeaderDedupWindow, HeaderExpiresAt, HeaderBatch, HeaderEstimatedDuration:
		return s.SubmitOptions.readValue(name, v)
	default:
		if strings.EqualFold(name, headerNamespace) {
			return events.Refuse(events.CodeBadHeader, "a plain publish can't be handed to another namespace (header %s): make a request to %s with the field namespace", headerNamespace, APISubmit)
		}
		return events.Refuse(events.CodeBadHeader, "header %q is unknown: the known ones are %s and %s; drop it or correct its name", events.Clip(name, maxQuoted), strings.Join(submitHeaders, ", "), HeaderTrace)
	}
	return err
}

// parseDuration reads a Go duration, rounded up to whole milliseconds.
func parseDuration(name, v string) (events.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return events.Duration{}, events.Refuse(events.CodeBadTime, "header %s must be a duration, such as 90s, 5m or 1h30m", name)
	}
	return events.DurationOf(d), nil
}

// parsePositive is parseDuration for one that must not be 0.
func parsePositive(name, v string) (events.Duration, error) {
	d, err := parseDuration(name, v)
	if err == nil && d.IsZero() {
		err = events.Refuse(events.CodeBadTime, "header %s is 0: give a duration above 0, or leave it out", name)
	}
	return d, err
}

func (s *Submit) readLabels(values []string) error {
	for _, v := range values {
		m, err := ParseLabels(v)
		if err != nil {
			return events.Refuse(events.CodeBadHeader, "header %s: %v", HeaderLabels, err)
		}
		if s.Labels == nil {
			s.Labels = m
			continue
		}
		maps.Copy(s.Labels, m)
	}
	return nil
}

// ParseLabels reads labels written as k=v,k=v. A value may contain =, but no
// comma. Nothing at all is nil.
func ParseLabels(text string) (map[string]string, error) {
	var m map[string]string
	for _, part := range splitList(text) {
		k, v, ok := strings.Cut(part, "=")
		if k = strings.TrimSpace(k); !ok || k == "" {
			return nil, events.Refuse(events.CodeBadRequest, "a label has no key: write labels as key=value, with commas between them")
		}
		if m == nil {
			m = make(map[string]string)
		}
		m[k] = strings.TrimSpace(v)
	}
	return m, nil
}

// splitList cuts a comma separated list, without blanks around its elements
// and without empty ones.
func splitList(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// Headers are the headers with which a plain publish of Params says the same
// as s; ParseSubmission reads them back. It refuses, with an *events.Error,
// what a header can't carry: line breaks, blanks at either end, commas in
// labels and capabilities.
func (s Submit) Headers() (map[string][]string, error) {
	h := make(map[string][]string)
	var bad error
	set := func(name, v string) {
		if v == "" {
			return
		}
		if strings.ContainsAny(v, "\r\n\x00") || strings.TrimSpace(v) != v {
			bad = events.Refuse(events.CodeBadHeader, "%s can't be sent as a header: it has line breaks, or blanks at an end: submit through %s instead", name, APISubmit)
		}
		h[name] = []string{v}
	}
	list := func(name string, parts []string) {
		for _, p := range parts {
			if strings.TrimSpace(p) != p || p == "" || strings.Contains(p, ",") {
				bad = events.Refuse(events.CodeBadHeader, "%q can't be sent in header %s: it has a comma, or blanks at an end: submit through %s instead", events.Clip(p, maxQuoted), name, APISubmit)
			}
		}
		set(name, strings.Join(parts, ","))
	}
	if s.Namespace != "" {
		bad = events.Refuse(events.CodeBadHeader, "a plain publish can't be handed to another namespace: submit through %s instead", APISubmit)
	}
	if s.Signal != nil {
		bad = events.Refuse(events.CodeBadHeader, "a plain publish can't carry a signal: submit through %s instead", APISubmit)
	}
	set(HeaderID, s.ID)
	if s.Priority != nil {
		set(HeaderPriority, strconv.Itoa(int(*s.Priority)))
	}
	set(HeaderDedupKey, s.DedupKey)
	set(HeaderIdempotencyKey, s.IdempotencyKey)
	if !s.AvailableAt.IsZero() {
		set(HeaderAvailableAt, s.AvailableAt.UTC().Format(time.RFC3339Nano))
	}
	setDuration(h, HeaderDelay, s.Delay)
	setDuration(h, HeaderTimeout, s.Timeout)
	if s.MaxAttempts != 0 {
		set(HeaderMaxAttempts, strconv.Itoa(s.MaxAttempts))
	}
	list(HeaderCapabilities, s.Capabilities)
	set(HeaderSource, s.Source)
	set(HeaderTrigger, s.Trigger)
	set(HeaderTenant, s.Tenant)
	list(HeaderLabels, labelList(s.Labels))
	set(HeaderTrace, s.Trace)
	list(HeaderAfter, s.After)
	s.SubmitOptions.setHeaders(set)
	return h, bad
}

func setDuration(h map[string][]string, name string, d events.Duration) {
	if !d.IsZero() {
		h[name] = []string{strconv.FormatInt(d.Milliseconds(), 10) + "ms"}
	}
}

func labelList(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return out
}

// maxQuoted bounds the part of a caller's text that an error repeats, in bytes.
const maxQuoted = 64

// LabelHeader is the value of a Work-Labels header, in a fixed order.
func LabelHeader(labels map[string]string) []string {
	return []string{strings.Join(labelList(labels), ",")}
}
