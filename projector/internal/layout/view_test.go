package layout

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/streamwright/streamwright/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// view returns a view of a store that holds some keys.
func view(t *testing.T, kv map[string]string) View {
	t.Helper()
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil { // it fails if an iterator or a value is still open
			t.Error(err)
		}
	})
	for k, v := range kv {
		if err := db.Set([]byte(k), []byte(v), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	return View{R: db}
}

type quiet struct{}

func (quiet) Infof(string, ...any)      {}
func (quiet) Errorf(string, ...any)     {}
func (quiet) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

var errStop = errors.New("stop")

// A scan goes from a key up to the end of a prefix, and back again, until it is told to stop.
func TestScans(t *testing.T) {
	v := view(t, map[string]string{"a": "0", "b1": "1", "b2": "2", "b3": "3", "c": "4"})
	walk := func(most int, fail error) (*[]string, func(key, value []byte) (bool, error)) {
		var got []string
		return &got, func(key, value []byte) (bool, error) {
			got = append(got, string(key)+"="+string(value))
			return len(got) < most, fail
		}
	}
	for _, c := range []struct {
		what string
		scan func(fn func(key, value []byte) (bool, error)) error
		most int
		fail error
		want string
	}{
		{"all", func(fn func(k, v []byte) (bool, error)) error { return v.Scan([]byte("b"), []byte("b"), fn) }, 9, nil, "[b1=1 b2=2 b3=3]"},
		{"from one on", func(fn func(k, v []byte) (bool, error)) error { return v.Scan([]byte("b"), []byte("b2"), fn) }, 9, nil, "[b2=2 b3=3]"},
		{"two", func(fn func(k, v []byte) (bool, error)) error { return v.Scan([]byte("b"), []byte("b"), fn) }, 2, nil, "[b1=1 b2=2]"},
		{"with an error", func(fn func(k, v []byte) (bool, error)) error { return v.Scan([]byte("b"), []byte("b"), fn) }, 9, errStop, "[b1=1]"},
		{"backward", func(fn func(k, v []byte) (bool, error)) error { return v.Backward([]byte("b"), []byte("c"), fn) }, 9, nil, "[b3=3 b2=2 b1=1]"},
		{"backward from one on", func(fn func(k, v []byte) (bool, error)) error { return v.Backward([]byte("b"), []byte("b3"), fn) }, 1, nil, "[b2=2]"},
		{"backward with an error", func(fn func(k, v []byte) (bool, error)) error { return v.Backward([]byte("b"), []byte("c"), fn) }, 9, errStop, "[b3=3]"},
	} {
		got, fn := walk(c.most, c.fail)
		if err := c.scan(fn); fmt.Sprint(*got) != c.want || !errors.Is(err, c.fail) {
			t.Errorf("%s: %v, %v, want %s", c.what, *got, err, c.want)
		}
	}
	if has, err := v.Get([]byte("b1"), func([]byte) error { return errStop }); !has || !errors.Is(err, errStop) {
		t.Errorf("%v, %v", has, err)
	}
	if has, err := v.Get([]byte("b"), func([]byte) error { return errStop }); has || err != nil {
		t.Errorf("what is not there: %v, %v", has, err)
	}
}

func TestAnEmptyStore(t *testing.T) {
	v := view(t, nil)
	m, err := v.Meta()
	types, terr := v.Types()
	it, ierr := v.Item(events.ID{1})
	id, nerr := v.NewestID()
	book, berr := v.RejectedBook()
	sum, serr := v.Checksum()
	first, ferr := v.FirstExpiries()
	if m.Applied != 0 || types != nil || it != nil || !id.IsZero() || book != (RejectedBook{}) || sum != 0 || first != (Expiries{NoExpiry, NoExpiry}) ||
		errors.Join(err, terr, ierr, nerr, berr, serr, ferr) != nil {
		t.Errorf("%+v %v %v %v %+v %d %v %v", m, types, it, id, book, sum, first, errors.Join(err, terr, ierr, nerr, berr, serr, ferr))
	}
}

func TestView(t *testing.T) {
	one, two := events.ID{1}, events.ID{2}
	it := sample(events.StateRunning)
	it.ID = one
	soon, late := time.Unix(50, 0).UTC(), time.Unix(60, 0).UTC()
	msg, key := events.KeyRef{Kind: events.KeyMsgID, Key: "m"}, events.KeyRef{Kind: events.KeyIdempotency, Type: "email", Key: "k"}
	v := view(t, map[string]string{
		string(MetaKey(MetaState)):                                                      `{"applied":7}`,
		string(MetaKey(MetaRejected)):                                                   `{"count":2,"bytes":9}`,
		string(AppendTypeKey(nil, "t")):                                                 `{"source":"file"}`,
		string(AppendRejectedKey(nil, 4)):                                               `{"size":3}`,
		string(IDKey(PrefixItem, one)):                                                  string(AppendItem(nil, it)),
		string(IDKey(PrefixItem, two)):                                                  "\x01, no item",
		string(IDKey(PrefixParams, one)):                                                "{}",
		string(append(IDKey(PrefixChild, one), two[:]...)):                              "",
		string(append(IDKey(PrefixChild, one), one[:]...)):                              "",
		string(append(IDKey(PrefixChild, two), two[:]...)):                              "",
		string(AppendRecordKey(nil, events.Record{Kind: events.RecordCause, Key: "a"})): "1",
		string(AppendHeldKey(nil, key)):                                                 string(AppendHeld(nil, events.HeldKey{ID: one, Until: soon})),
		string(AppendExpiryKey(nil, soon, key)):                                         "",
		string(AppendExpiryKey(nil, late, key)):                                         "",
		string(AppendExpiryKey(nil, late, msg)):                                         "",
		string(MetaKey(MetaChecksum)):                                                   string(AppendUint(nil, 77)),
		string(MetaKey(MetaIdentity)):                                                   "log",
		string(append(AppendWorkerPrefix(nil, "w"), one[:]...)):                         "",
	})
	if got, err := v.Item(one); err != nil || got.Worker != it.Worker {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := v.Item(two); !errors.Is(err, ErrRecord) {
		t.Errorf("a damaged item: %v", err)
	}
	if id, err := v.NewestID(); id != two || err != nil {
		t.Errorf("the last id is %s, %v", id, err)
	}
	if doc, err := v.Document(PrefixParams, one); string(doc) != "{}" || err != nil {
		t.Errorf("params %q, %v", doc, err)
	}
	if doc, err := v.Document(PrefixResult, one); doc != nil || err != nil {
		t.Errorf("a result %q, %v", doc, err)
	}
	for _, c := range []struct {
		behind events.ID
		limit  int
		want   []events.ID
	}{{events.ID{}, 9, []events.ID{one, two}}, {events.ID{}, 1, []events.ID{one}}, {one, 9, []events.ID{two}}, {two, 9, nil}} {
		if ids, err := v.Related(PrefixChild, one, c.behind, c.limit); !slices.Equal(ids, c.want) || err != nil {
			t.Errorf("behind %s, up to %d: %v, %v", c.behind, c.limit, ids, err)
		}
	}
	if recs, err := v.Records(events.RecordCause); err != nil || len(recs) != 1 || recs[0].Key != "a" || string(recs[0].Data) != "1" || recs[0].Kind != events.RecordCause {
		t.Errorf("%+v, %v", recs, err)
	}
	if h, has, err := v.HeldKey(key); !has || err != nil || h.ID != one || !h.Until.Equal(soon) || h.Ref != key {
		t.Errorf("%+v, %v, %v", h, has, err)
	}
	if _, has, err := v.HeldKey(msg); has || err != nil {
		t.Errorf("a key that nobody holds: %v, %v", has, err)
	}
	if first, err := v.FirstExpiries(); err != nil || first != (Expiries{ClockEvents: Nanos(soon), clockMsgID: Nanos(late)}) {
		t.Errorf("first expiries %v, %v", first, err)
	}
	n := 0
	if err := v.Expiries(ClockEvents, Nanos(soon)+1, func(h events.HeldKey, entry []byte) (bool, error) {
		if n++; !h.Until.Equal(late) || h.Ref != key || string(entry) != string(AppendExpiryKey(nil, late, key)) {
			t.Errorf("%+v by %q", h, entry)
		}
		return true, nil
	}); err != nil || n != 1 {
		t.Errorf("%d expire later, %v", n, err)
	}
	if m, err := v.Meta(); err != nil || m.Applied != 7 {
		t.Errorf("%+v, %v", m, err)
	}
	if types, err := v.Types(); err != nil || len(types) != 1 || types[0].Source != events.SourceFile {
		t.Errorf("%+v, %v", types, err)
	}
	if b, err := v.RejectedBook(); err != nil || b != (RejectedBook{Count: 2, Bytes: 9}) {
		t.Errorf("%+v, %v", b, err)
	}
	if rec, has, err := v.RejectedAt(4); err != nil || !has || rec.Size != 3 {
		t.Errorf("%+v, %v, %v", rec, has, err)
	}
	if _, has, err := v.RejectedAt(5); err != nil || has {
		t.Errorf("what was not rejected: %v, %v", has, err)
	}
	sum, err := v.Checksum()
	id, ierr := v.Identity()
	if sum != 77 || id != "log" || errors.Join(err, ierr) != nil {
		t.Errorf("%d, %q, %v", sum, id, errors.Join(err, ierr))
	}
	prefix := AppendWorkerPrefix(nil, "w")
	if got, err := v.Indexed(append(slices.Clone(prefix), one[:]...), len(prefix)); err != nil || got.ID != one {
		t.Errorf("%+v, %v", got, err)
	}
	gone := events.ID{9}
	for _, key := range [][]byte{append(slices.Clone(prefix), gone[:]...), append(slices.Clone(prefix), 1)} {
		if _, err := v.Indexed(key, len(prefix)); !errors.Is(err, ErrRecord) {
			t.Errorf("%q leads to no item: %v", key, err)
		}
	}
}
