package figures

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// How exactly a wait is known. A bucket of level l is 2^l times Resolution
// wide and begins at a multiple of that; an item is put into the widest one that
// is no wider than 1/Precision of the distance between its place and the time at
// which it is counted.
const (
	Resolution = 1 << bits0 * time.Nanosecond // 67 ms
	Precision  = 1 << bitsP

	bits0     = 26
	bitsP     = 5
	maxLevel  = 63 - bits0 - bitsP
	minToFold = 256 // buckets
)

// bucket is a stretch of time: from index << (bits0+level) on.
type bucket struct {
	level int8
	index int64
}

func (b bucket) from() int64    { return b.index << (bits0 + b.level) }
func (b bucket) width() int64   { return 1 << (bits0 + b.level) }
func (b bucket) middle() int64  { return b.from() + b.width()/2 }
func (b bucket) parent() bucket { return bucket{b.level + 1, b.index >> 1} }
func levelFor(distance int64) int8 {
	if distance < 0 {
		distance = -distance
	}
	return int8(min(max(bits.Len64(uint64(distance)>>(bits0+bitsP))-1, 0), maxLevel))
}

// queue counts the places of one type and priority. As time passes, buckets of the
// past become part of wider ones, so there are few of them however many items wait:
// about 2 × Precision for each level in use (ten years need 28 levels), and twice as
// many until they are folded.
type queue struct {
	buckets map[bucket]int64 // none is 0
	n       int64
	fold    int // at so many buckets
}

func (q *queue) add(place, now int64) {
	l := levelFor(now - place)
	if q.buckets == nil {
		q.buckets = map[bucket]int64{}
	}
	q.buckets[bucket{l, place >> (bits0 + l)}]++
	q.n++
	if len(q.buckets) >= max(q.fold, minToFold) {
		q.foldUp(now)
	}
}

// remove takes out an item that was put in for a place. It is in one of the
// buckets around that; if several hold items, taking one from the narrowest
// keeps each count right to the width of the widest.
func (q *queue) remove(place int64) {
	if q.n == 0 {
		return
	}
	for l := int8(0); l <= maxLevel; l++ {
		b := bucket{l, place >> (bits0 + l)}
		n := q.buckets[b]
		switch {
		case n == 0:
			continue
		case n == 1:
			delete(q.buckets, b)
		default:
			q.buckets[b] = n - 1
		}
		q.n--
		return
	}
}

// foldUp makes buckets of the past as wide as their age allows.
func (q *queue) foldUp(now int64) {
	for b, n := range q.buckets {
		to := b
		for to.level < levelFor(now-(to.from()+to.width())) && to.from()+to.width() < now {
			to = to.parent()
		}
		if to != b {
			delete(q.buckets, b)
			q.buckets[to] += n // if it is iterated over as well, it stays as it is
		}
	}
	q.fold = 2 * len(q.buckets)
}

// span counts items that have been waiting for about the same time.
type span struct {
	age time.Duration
	n   int64
}

// spans appends the waits of the items whose place has come.
func (q *queue) spans(to []span, now int64) []span {
	to = slices.Grow(to, len(q.buckets))
	for b, n := range q.buckets {
		if middle := b.middle(); middle <= now {
			to = append(to, span{time.Duration(now - middle), n})
		} else if b.level == 0 && b.from() <= now {
			to = append(to, span{0, n})
		}
	}
	return to
}

// waitOf sums spans up; of is the number of items, scheduled ones included.
func waitOf(spans []span, of int64) (w Wait) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.age, b.age) })
	for _, s := range spans {
		w.Waiting += s.n
	}
	w.Scheduled = of - w.Waiting
	seen := int64(0)
	for _, s := range spans {
		if seen*100 < w.Waiting*50 {
			w.P50 = s.age
		}
		if seen*100 < w.Waiting*95 {
			w.P95 = s.age
		}
		seen += s.n
		w.Oldest = s.age
	}
	return w
}
