package projector

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// The fields that most items leave out come last in a record: a bit for each
// that is there, then those.
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
		data, err := json.Marshal(it.Relations)
		if err != nil {
			panic("relations that can't be written as JSON: " + err.Error()) // all fields are plain
		}
		b = binary.AppendUvarint(b, uint64(len(data)))
		b = append(b, data...)
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
	return b
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
		{restEstimate, it.Estimate != 0},
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
		it.ExpiresAt = fromNanos(r.int())
	}
	if bits&restLeasesLost != 0 {
		it.LeasesLost = int(r.uint())
	}
	if bits&restProgress != 0 {
		it.Progress = events.Progress{At: fromNanos(r.int()), Percent: int(r.uint()), Message: r.string()}
	}
	if bits&restCause != 0 {
		it.Cause = r.string()
	}
	if bits&restRelations != 0 {
		it.Relations = new(events.Relations)
		if json.Unmarshal([]byte(r.string()), it.Relations) != nil {
			r.bad = true
		}
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
}
