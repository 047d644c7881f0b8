package dispatcher

import "testing"

// Messages that wait to be deleted have one chore at a time, come in batches, each
// once, and are bounded.
func TestSpentMessages(t *testing.T) {
	var s spentMsgs
	for i := range maxSpent {
		chore, full := s.add(uint64(i + 1))
		if chore != (i == 0) || full {
			t.Fatalf("message %d: chore %v, full %v", i+1, chore, full)
		}
	}
	if chore, full := s.add(maxSpent + 1); chore || !full {
		t.Fatalf("one more: chore %v, full %v", chore, full)
	}
	s.notQueued()
	if chore, full := s.add(maxSpent + 2); !chore || !full {
		t.Fatalf("one more, without a chore: %v, full %v", chore, full)
	}
	n := uint64(0)
	for more := true; more; {
		var seqs []uint64
		seqs, more = s.next()
		if len(seqs) > spentBatch {
			t.Fatalf("%d at once", len(seqs))
		}
		for _, seq := range seqs {
			if n++; seq != n {
				t.Fatalf("message %d in place of %d", seq, n)
			}
		}
	}
	if n != maxSpent {
		t.Fatalf("%d of %d came", n, maxSpent)
	}
	if chore, full := s.add(1); !chore || full {
		t.Fatalf("the first of new ones: chore %v, full %v", chore, full)
	}
}
