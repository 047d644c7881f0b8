package blobs

import (
	"strconv"
	"strings"
)

// placesKey is where a description says, among its metadata, which messages its
// chunks are. Their subject alone does not: whoever may put objects sees the
// first chunk, and may put others between those that are still to come.
const placesKey = "chunks"

// places writes ascending sequences: the first, and how far each is behind the
// one before.
func places(seqs []uint64) string {
	var b strings.Builder
	last := uint64(0)
	for i, seq := range seqs {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.FormatUint(seq-last, 10))
		last = seq
	}
	return b.String()
}

// readPlaces reads what places has written; nil if that is not what it is, as in
// the descriptions of other programs.
func readPlaces(text string) []uint64 {
	var seqs []uint64
	last := uint64(0)
	for step := range strings.FieldsSeq(text) {
		n, err := strconv.ParseUint(step, 10, 64)
		if err != nil || n == 0 || last+n < last {
			return nil
		}
		last += n
		seqs = append(seqs, last)
	}
	return seqs
}
