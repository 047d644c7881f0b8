package layout

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// RecordVersion is the version of the item records that this program writes.
// The program reads this version and refuses higher ones.
const RecordVersion = 4

// The flags of an item record.
const (
	flagRetryable = 1 << iota
	flagHasResult
	flagMergedInto
)

// itemTimes lists an item's times in the order in which a record holds them;
// each is stored as its distance from CreatedAt.
func itemTimes(it *events.Item) [8]*time.Time {
	return [8]*time.Time{&it.QueuedAt, &it.OrderAt, &it.AvailableAt, &it.ClaimedAt, &it.StartBy, &it.StartedAt, &it.Deadline, &it.FinishedAt}
}

// AppendItem appends the record of an item: a version, then the fields in a
// fixed order, numbers as varints, text with its length, maps sorted by key.
// The same item always gives the same bytes. The id is left to the key.
func AppendItem(b []byte, it *events.Item) []byte {
	b = append(b, RecordVersion, byte(it.State), byte(it.Priority), itemFlags(it))
	b = appendString(b, string(it.Type))
	b = binary.AppendUvarint(b, uint64(it.Attempt))
	b = binary.AppendUvarint(b, uint64(it.MaxAttempts))
	b = binary.AppendVarint(b, int64(it.Timeout))
	b = appendString(b, string(it.Worker))
	b = binary.AppendUvarint(b, uint64(it.Token))
	b = appendString(b, it.DedupKey)
	b = appendString(b, it.IdempotencyKey)
	b = binary.AppendUvarint(b, uint64(len(it.Capabilities)))
	for _, c := range it.Capabilities {
		b = appendString(b, c)
	}
	b = appendString(b, it.Tenant)
	b = appendLabels(b, it.Labels)
	for _, s := range [...]string{it.Provenance.Source, it.Provenance.Trigger, it.SubmittedBy, it.Trace, it.Digest, it.Error, it.Code, it.Reason} {
		b = appendString(b, s)
	}
	if !it.MergedInto.IsZero() {
		b = append(b, it.MergedInto[:]...)
	}
	b = binary.AppendUvarint(b, uint64(it.MergedCount))
	b = binary.AppendUvarint(b, it.IntakeSeq)
	b = binary.AppendUvarint(b, uint64(it.CreatedSeq))
	b = binary.AppendUvarint(b, uint64(it.Seq))
	b = appendTimes(b, it)
	return appendRest(b, it)
}

func itemFlags(it *events.Item) (f byte) {
	if it.Retryable {
		f |= flagRetryable
	}
	if it.HasResult {
		f |= flagHasResult
	}
	if !it.MergedInto.IsZero() {
		f |= flagMergedInto
	}
	return f
}

func appendTimes(b []byte, it *events.Item) []byte {
	base := Nanos(it.CreatedAt)
	b = binary.AppendVarint(b, base)
	mask := len(b)
	b = append(b, 0)
	for i, t := range itemTimes(it) {
		if !t.IsZero() {
			b[mask] |= 1 << i
			b = binary.AppendVarint(b, t.UnixNano()-base)
		}
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendLabels(b []byte, labels map[string]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(labels)))
	if len(labels) == 0 {
		return b
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		b = appendString(appendString(b, k), labels[k])
	}
	return b
}

// ErrNewerFormat is wrapped by the error about a store, or a record in one,
// that a newer program wrote.
var ErrNewerFormat = errors.New("written by a newer program")

var ErrRecord = errors.New("malformed record: the store is damaged, rebuild it from the log (engine rebuild)")

// DecodeItem reads an item's record.
func DecodeItem(id events.ID, data []byte) (*events.Item, error) {
	if len(data) > 0 && data[0] > RecordVersion {
		return nil, fmt.Errorf("item %s: its record has version %d, this program knows up to %d: %w: use that one, or rebuild the store (engine rebuild)", id, data[0], RecordVersion, ErrNewerFormat)
	}
	if len(data) < 4 || data[0] != RecordVersion {
		return nil, fmt.Errorf("item %s: %w", id, ErrRecord)
	}
	it := &events.Item{ID: id, State: events.ItemState(data[1]), Priority: events.Priority(data[2])}
	flags := data[3]
	it.Retryable, it.HasResult = flags&flagRetryable != 0, flags&flagHasResult != 0
	r := recordReader{s: string(data[4:])}
	r.item(it, flags)
	if r.bad || r.s != "" || it.State >= events.NumStates || it.Priority > events.MaxPriority {
		return nil, fmt.Errorf("item %s: %w", id, ErrRecord)
	}
	return it, nil
}

// recordReader takes a record apart. The strings that it returns share one
// allocation.
type recordReader struct {
	s   string
	bad bool
}

func (r *recordReader) item(it *events.Item, flags byte) {
	it.Type = events.Type(r.string())
	it.Attempt = events.Attempt(r.uint())
	it.MaxAttempts = events.Attempt(r.uint())
	it.Timeout = time.Duration(r.int())
	it.Worker = events.WorkerID(r.string())
	it.Token = events.Token(r.uint())
	it.DedupKey = r.string()
	it.IdempotencyKey = r.string()
	for range r.count() {
		it.Capabilities = append(it.Capabilities, r.string())
	}
	it.Tenant = r.string()
	if n := r.count(); n > 0 {
		it.Labels = make(map[string]string, n)
		for range n {
			k := r.string()
			it.Labels[k] = r.string()
		}
	}
	for _, s := range [...]*string{&it.Provenance.Source, &it.Provenance.Trigger, &it.SubmittedBy, &it.Trace, &it.Digest, &it.Error, &it.Code, &it.Reason} {
		*s = r.string()
	}
	if flags&flagMergedInto != 0 {
		copy(it.MergedInto[:], r.take(len(it.MergedInto)))
	}
	it.MergedCount = int(r.uint())
	it.IntakeSeq = r.uint()
	it.CreatedSeq = events.Seq(r.uint())
	it.Seq = events.Seq(r.uint())
	base := r.int()
	it.CreatedAt = FromNanos(base)
	mask := r.take(1)
	for i, t := range itemTimes(it) {
		if mask != "" && mask[0]&(1<<i) != 0 {
			*t = time.Unix(0, base+r.int()).UTC()
		}
	}
	r.rest(it)
}

func (r *recordReader) take(n int) string {
	if r.bad || n < 0 || n > len(r.s) {
		r.bad = true
		return ""
	}
	v := r.s[:n]
	r.s = r.s[n:]
	return v
}

func (r *recordReader) uint() uint64 {
	var n uint64
	for shift := uint(0); shift < 64; shift += 7 {
		c := r.take(1)
		if c == "" {
			return 0
		}
		n |= uint64(c[0]&0x7f) << shift
		if c[0] < 0x80 {
			return n
		}
	}
	r.bad = true
	return 0
}

func (r *recordReader) int() int64 {
	n := r.uint()
	return int64(n>>1) ^ -int64(n&1)
}

// count reads how many elements follow; each takes a byte at least.
func (r *recordReader) count() int {
	n := r.uint()
	if n > uint64(len(r.s)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *recordReader) string() string {
	n := r.uint()
	if n > uint64(len(r.s)) {
		r.bad = true
		return ""
	}
	return r.take(int(n))
}

// The fields that most items leave out come last in a record: a bit for each
// that is present, then their values.
const (
	restGroup = 1 << iota
	restWindow
	restHoldsKey
	restExpires
	restOwnAttempts
	restLeasesLost
	restProbe
	restCheckpoint
	restProgress
	restCause
	restRelations
	restBase // its base is not its created event
	restBefore
	restMsgID
	restOwnTimeout
	restEstimate
	restWaits
	restSpared
	restPruned
	restSignals
	restEnd
)

func appendRest(b []byte, it *events.Item) []byte {
	bits := restBits(it)
	b = binary.AppendUvarint(b, bits)
	if bits == 0 {
		return b
	}
	if bits&restGroup != 0 {
		b = appendString(b, it.Group)
	}
	if bits&restWindow != 0 {
		b = binary.AppendVarint(b, int64(it.DedupWindow))
	}
	if bits&restExpires != 0 {
		b = binary.AppendVarint(b, it.ExpiresAt.UnixNano())
	}
	if bits&restLeasesLost != 0 {
		b = binary.AppendUvarint(b, uint64(it.LeasesLost))
	}
	if bits&restProgress != 0 {
		b = binary.AppendVarint(b, it.Progress.At.UnixNano())
		b = binary.AppendUvarint(b, uint64(it.Progress.Percent))
		b = appendString(b, it.Progress.Message)
	}
	if bits&restCause != 0 {
		b = appendString(b, it.Cause)
	}
	if bits&restRelations != 0 {
		b = appendInner(b, it.Relations)
	}
	if bits&restBase != 0 {
		b = binary.AppendUvarint(b, uint64(it.BaseSeq))
	}
	if bits&restBefore != 0 {
		b = binary.AppendUvarint(b, uint64(it.AttemptsBefore))
	}
	if bits&restMsgID != 0 {
		b = appendString(b, it.MsgID)
	}
	if bits&restEstimate != 0 {
		b = binary.AppendVarint(b, int64(it.Estimate))
	}
	if bits&restWaits != 0 {
		b = binary.AppendVarint(b, it.WaitsFrom.UnixNano())
	}
	if bits&restSpared != 0 {
		b = binary.AppendUvarint(b, uint64(it.Spared))
	}
	if bits&restPruned != 0 {
		b = binary.AppendUvarint(b, uint64(it.PrunedSeq))
	}
	if bits&restSignals != 0 {
		b = appendInner(b, it.Signals)
	}
	return b
}

// appendInner appends a part of a record that few items have, as JSON.
func appendInner(b []byte, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("a part of an item that can't be written as JSON: " + err.Error()) // all fields are plain, or checked
	}
	return append(binary.AppendUvarint(b, uint64(len(data))), data...)
}

func restBits(it *events.Item) (bits uint64) {
	for _, f := range [...]struct {
		bit uint64
		set bool
	}{
		{restGroup, it.Group != ""}, {restWindow, it.DedupWindow != 0}, {restHoldsKey, it.HoldsKey}, {restExpires, !it.ExpiresAt.IsZero()},
		{restOwnAttempts, it.OwnAttempts}, {restLeasesLost, it.LeasesLost != 0}, {restProbe, it.Probe}, {restCheckpoint, it.HasCheckpoint},
		{restProgress, !it.Progress.At.IsZero()}, {restCause, it.Cause != ""}, {restRelations, it.Relations != nil}, {restBase, it.BaseSeq != it.CreatedSeq},
		{restBefore, it.AttemptsBefore != 0}, {restMsgID, it.MsgID != ""}, {restOwnTimeout, it.OwnTimeout},
		{restEstimate, it.Estimate != 0}, {restWaits, !it.WaitsFrom.IsZero()}, {restSpared, it.Spared != 0},
		{restPruned, it.PrunedSeq != 0}, {restSignals, it.Signals != nil},
	} {
		if f.set {
			bits |= f.bit
		}
	}
	return bits
}

func (r *recordReader) rest(it *events.Item) {
	bits := r.uint()
	if bits >= restEnd {
		r.bad = true
		return
	}
	it.HoldsKey, it.OwnAttempts = bits&restHoldsKey != 0, bits&restOwnAttempts != 0
	it.OwnTimeout = bits&restOwnTimeout != 0
	it.Probe, it.HasCheckpoint = bits&restProbe != 0, bits&restCheckpoint != 0
	it.BaseSeq = it.CreatedSeq
	if bits&restGroup != 0 {
		it.Group = r.string()
	}
	if bits&restWindow != 0 {
		it.DedupWindow = time.Duration(r.int())
	}
	if bits&restExpires != 0 {
		it.ExpiresAt = FromNanos(r.int())
	}
	if bits&restLeasesLost != 0 {
		it.LeasesLost = int(r.uint())
	}
	if bits&restProgress != 0 {
		it.Progress = events.Progress{At: FromNanos(r.int()), Percent: int(r.uint()), Message: r.string()}
	}
	if bits&restCause != 0 {
		it.Cause = r.string()
	}
	if bits&restRelations != 0 {
		it.Relations = new(events.Relations)
		r.inner(it.Relations)
	}
	if bits&restBase != 0 {
		it.BaseSeq = events.Seq(r.uint())
	}
	if bits&restBefore != 0 {
		it.AttemptsBefore = events.Attempt(r.uint())
	}
	if bits&restMsgID != 0 {
		it.MsgID = r.string()
	}
	if bits&restEstimate != 0 {
		it.Estimate = time.Duration(r.int())
	}
	if bits&restWaits != 0 {
		it.WaitsFrom = FromNanos(r.int())
	}
	if bits&restSpared != 0 {
		it.Spared = events.Attempt(r.uint())
	}
	if bits&restPruned != 0 {
		it.PrunedSeq = events.Seq(r.uint())
	}
	if bits&restSignals != 0 {
		it.Signals = new(events.Signals)
		r.inner(it.Signals)
	}
}

func (r *recordReader) inner(v any) {
	if json.Unmarshal([]byte(r.string()), v) != nil {
		r.bad = true
	}
}
