package projector

import "testing"

// A store that serves an engine takes at most 32 MiB; one that is made anew fills larger
// memtables, however small those of the options are.
func TestMemoryOfPebble(t *testing.T) {
	o := Options{}.WithDefaults()
	po := o.pebble()
	if po.CacheSize > 32<<20 || po.MemTableSize*uint64(po.MemTableStopWritesThreshold) > 16<<20 {
		t.Errorf("cache %d, %d memtables of %d", po.CacheSize, po.MemTableStopWritesThreshold, po.MemTableSize)
	}
	for _, bytes := range []int64{1 << 20, 128 << 20} {
		o.bulk, o.MemTableBytes = true, bytes
		po := o.pebble()
		if err := po.Validate(); err != nil || po.MemTableSize != uint64(max(bytes, 64<<20)) {
			t.Errorf("made anew with memtables of %d: %d (%v)", bytes, po.MemTableSize, err)
		}
	}
}
