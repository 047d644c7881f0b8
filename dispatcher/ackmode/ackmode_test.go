package ackmode

import "testing"

// Recent has the last maxRecent sequences that were put in, and no others. One that is put in
// again neither takes room nor becomes newer.
func TestRecent(t *testing.T) {
	var r Recent
	if r.Has(1) {
		t.Fatal("an empty Recent has a sequence")
	}
	const more = maxRecent + 3
	for seq := uint64(1); seq <= maxRecent+more; seq++ {
		r.Put(seq)
		r.Put(seq)
		r.Put(max(seq, maxRecent) - maxRecent + 1) // the oldest that is left
		if oldest := max(seq, maxRecent) - maxRecent + 1; !r.Has(seq) || !r.Has(oldest) || r.Has(oldest-1) || r.Has(seq+1) {
			t.Fatalf("after %d: has it: %v, the oldest, %d: %v, the one before that: %v, the next: %v", seq, r.Has(seq), oldest, r.Has(oldest), r.Has(oldest-1), r.Has(seq+1))
		}
	}
	if len(r.set) != maxRecent || len(r.order) != maxRecent {
		t.Fatalf("it holds %d and %d sequences, want %d", len(r.set), len(r.order), maxRecent)
	}
}
