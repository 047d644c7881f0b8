package layout

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

func TestTextKeepsItsOrderAndEndsItself(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 'b', 0xfe, 0xff}), 0, 6).Draw(t, "bytes"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		ka, kb := AppendText(nil, a), AppendText(nil, b)
		if bytes.Compare(ka, kb) != cmp.Compare(a, b) {
			t.Fatalf("%q and %q change their order", a, b)
		}
		r := KeyReader{B: append(ka, kb...)}
		if x, y := r.Text(), r.Text(); x != a || y != b || r.Err != nil || len(r.B) > 0 {
			t.Fatalf("%q %q became %q %q, %v", a, b, x, y, r.Err)
		}
	})
}

func TestTimeKeepsItsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		if bytes.Compare(AppendNanos(nil, a), AppendNanos(nil, b)) != cmp.Compare(a, b) {
			t.Fatalf("%d and %d change their order", a, b)
		}
		r := KeyReader{B: AppendTime(nil, FromNanos(a))}
		if r.Nanos() != a {
			t.Fatalf("%d is not read back", a)
		}
	})
	if !FromNanos(Nanos(time.Time{})).IsZero() {
		t.Fatal("the zero time is not read back")
	}
}

func TestAfter(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{{"a", "b"}, {"a\xff", "b"}, {"\xff\xff", ""}, {"", ""}, {"a\x00", "a\x01"}} {
		if got := After([]byte(c.prefix)); string(got) != c.want {
			t.Errorf("after %q comes %q, want %q", c.prefix, got, c.want)
		}
	}
}

func TestPlacesFollowEachOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		p := ListPlace{Seq: events.Seq(1 + rng.IntN(9))}
		for i, all := 0, rng.IntN(4); i < len(p.ID); i++ {
			p.ID[i] = []byte{0, 1, 0xff}[rng.IntN(3)]
			if all < 2 { // of all ids the first, or the last
				p.ID[i] = []byte{0, 0xff}[all]
			}
		}
		if p.Next().Prior() != p || p.Prior().Next() != p || p.Next().Compare(p) <= 0 || p.Prior().Compare(p) >= 0 {
			t.Fatalf("%v is between %v and %v", p, p.Prior(), p.Next())
		}
	}
}

// Entries of a listing lie in the store as their places compare, and are read back.
func TestPlacesKeepTheirOrder(t *testing.T) {
	place := rapid.Custom(func(t *rapid.T) ListPlace {
		return ListPlace{events.Seq(rapid.Uint64().Draw(t, "seq")), events.ID{rapid.Byte().Draw(t, "id"), 15: rapid.Byte().Draw(t, "end")}}
	})
	rapid.Check(t, func(t *rapid.T) {
		p, q := place.Draw(t, "p"), place.Draw(t, "q")
		if rapid.Bool().Draw(t, "together") {
			q.Seq = p.Seq
		}
		kp, kq := AppendListPlace(nil, p), AppendListPlace(nil, q)
		if bytes.Compare(kp, kq) != p.Compare(q) || len(kp) != PlaceBytes {
			t.Fatalf("%v and %v: %x and %x", p, q, kp, kq)
		}
		if r := (KeyReader{B: kp}); r.Place() != p || r.Err != nil {
			t.Fatalf("%v is not read back", p)
		}
	})
}

// The dead are listed by the time of their death, the last first.
func TestDeadPlaces(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	early, late, never := &events.Item{ID: events.ID{1}, FinishedAt: at}, &events.Item{ID: events.ID{1}, FinishedAt: at.Add(1)}, &events.Item{ID: events.ID{1}}
	if bytes.Compare(AppendDeadKey(nil, late), AppendDeadKey(nil, early)) >= 0 || bytes.Compare(AppendDeadKey(nil, early), AppendDeadKey(nil, never)) >= 0 {
		t.Error("the last dead is not the first")
	}
	if DeadPlace(early).Seq != PlaceOfTime(at) {
		t.Error("it has another place than its time")
	}
}

// A key that is cut short, or is no key, is told.
func TestMalformedKeys(t *testing.T) {
	for name, read := range map[string]func(*KeyReader){
		"byte": func(r *KeyReader) { r.Byte() }, "number": func(r *KeyReader) { r.Uint() }, "id": func(r *KeyReader) { r.ID() },
		"text": func(r *KeyReader) { r.Text() }, "skipped text": func(r *KeyReader) { r.SkipText() }, "place": func(r *KeyReader) { r.Place() }, "ref": func(r *KeyReader) { r.Ref() },
	} {
		for _, key := range []string{"", "abc", "abcdefghijk"} {
			r := KeyReader{B: []byte(key)}
			if read(&r); r.Err == nil && (name != "byte" && name != "number" || key == "") {
				t.Errorf("%s of %q is read", name, key)
			}
		}
	}
	r := KeyReader{B: []byte("a\x00\x02b\x00\x01")}
	if text := r.Text(); r.Err == nil {
		t.Errorf("a text with an unknown escape is read as %q", text)
	}
	if r.Uint() != 0 || r.Err == nil {
		t.Error("the first failure does not stick")
	}
}

func TestSkipText(t *testing.T) {
	for _, text := range []string{"", "a", "a\x00\x00b", "\x00\x01", "\xff"} {
		r := KeyReader{B: append(AppendText(nil, text), "rest"...)}
		if r.SkipText(); string(r.B) != "rest" || r.Err != nil {
			t.Errorf("behind %q comes %q, %v", text, r.B, r.Err)
		}
	}
}

// Keys expire by the clock of their kind.
func TestClocks(t *testing.T) {
	m := events.Meta{LastAt: time.Unix(5, 0), MsgIDAt: time.Unix(3, 0)}
	before := core.KeyTimes{Events: time.Unix(9, 0), MsgIDs: time.Unix(8, 0)}
	seen := [NumClocks]bool{}
	for _, k := range []events.KeyKind{events.KeyDedup, events.KeyIdempotency, events.KeyMsgID, events.KeyRate, events.KeyGroup} {
		c, of := ClockOf(k), before.Events
		if seen[c] = true; k == events.KeyMsgID {
			of = before.MsgIDs
		}
		if c.At(m) != m.KeyTime(k) || c.Of(before) != of {
			t.Errorf("keys of kind %c expire by %v, %v", k, c.At(m), c.Of(before))
		}
		for _, x := range []struct {
			until time.Time
			want  bool
		}{{time.Time{}, false}, {m.KeyTime(k), true}, {m.KeyTime(k).Add(1), false}, {m.KeyTime(k).Add(-1), true}} {
			if got := Expired(events.HeldKey{Ref: events.KeyRef{Kind: k}, Until: x.until}, m); got != x.want {
				t.Errorf("a key of kind %c until %v has expired: %v", k, x.until, got)
			}
		}
	}
	for c, ok := range seen {
		if !ok {
			t.Errorf("no key expires by clock %d", c)
		}
	}
}
