package events

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"testing"
)

func TestDecodeRefuses(t *testing.T) {
	const item = `"id":"01KDYAK43G0000000000000001","type":"email","at":"2026-01-02T03:04:05Z"`
	for name, c := range map[string]struct {
		data string
		want error
	}{
		"nothing":          {``, ErrCorrupt},
		"no JSON":          {`{`, ErrCorrupt},
		"no version":       {`{"kind":"running",` + item + `,"data":{}}`, ErrCorrupt},
		"a newer version":  {`{"v":2,"kind":"running",` + item + `,"data":{}}`, ErrNewer},
		"an unknown kind":  {`{"v":1,"kind":"sung",` + item + `,"data":{}}`, ErrCorrupt},
		"no data":          {`{"v":1,"kind":"running",` + item + `}`, ErrCorrupt},
		"data of a kind":   {`{"v":1,"kind":"claimed",` + item + `,"data":{"token":[]}}`, ErrCorrupt},
		"no id":            {`{"v":1,"kind":"running","type":"email","at":"2026-01-02T03:04:05Z","data":{}}`, ErrCorrupt},
		"no type":          {`{"v":1,"kind":"running","id":"01KDYAK43G0000000000000001","at":"2026-01-02T03:04:05Z","data":{}}`, ErrCorrupt},
		"a type's quote":   {`{"v":1,"kind":"rejected","type":"a\"b","at":"2026-01-02T03:04:05Z","data":{}}`, ErrCorrupt},
		"a worker's quote": {`{"v":1,"kind":"running",` + item + `,"worker":"\\","data":{}}`, ErrCorrupt},
		"a negative run":   {`{"v":1,"kind":"running",` + item + `,"attempt":-1,"data":{}}`, ErrCorrupt},
		"no params":        {`{"v":1,"kind":"created",` + item + `,"data":{}}`, ErrCorrupt},
		"priority 10":      {`{"v":1,"kind":"created",` + item + `,"data":{"params":1,"priority":10}}`, ErrCorrupt},
		"a year before 0":  {`{"v":1,"kind":"running",` + item + `,"data":{"deadline":"0000-01-01T00:00:00+23:00"}}`, ErrCorrupt},
	} {
		if _, err := DecodeEvent([]byte(c.data)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeEvent([]byte(`{"v":1,"kind":"running",` + item + `,"new":1,"data":{"newer":[]}}`)); err != nil {
		t.Errorf("unknown fields: %v", err)
	}
}

// Whatever decodes can be encoded again, and is then read as the same.
func FuzzRoundTrip(f *testing.F) {
	log, err := os.ReadFile("core/testdata/golden.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, line := range bytes.Split(bytes.TrimSpace(log), []byte("\n")) {
		f.Add(line)
	}
	f.Add([]byte(`{"v":1,"kind":"spawned","id":"01KDYAK43G0000000000000001","type":"email","at":"0001-01-01T00:00:00+01:00"}`))
	f.Add([]byte(`{"v":1,"kind":"queued","id":"01kdyak43g0000000000000001","type":"email","at":"2026-01-02T03:04:05Z","data":{"reason":"\u2028\"","order_at":"2026-01-02T03:04:05+02:00"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ev, err := DecodeEvent(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
				t.Fatalf("neither corrupt nor newer: %v", err)
			}
			return
		}
		once, err := ev.AppendJSON(nil)
		if err != nil {
			t.Fatalf("decoded and not encoded: %v", err)
		}
		if len(once) > ev.MaxJSON() {
			t.Fatalf("%s has more than %d bytes", once, ev.MaxJSON())
		}
		back, err := DecodeEvent(once)
		if err != nil {
			t.Fatalf("%s\nis encoded as\n%s\nand that is not decoded: %v", data, once, err)
		}
		twice, err := back.AppendJSON(nil)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%v\n%s\n%s", err, once, twice)
		}
		third, err := DecodeEvent(twice)
		if err != nil || !reflect.DeepEqual(back, third) {
			t.Fatalf("%v\n%+v\n%+v", err, back, third)
		}
	})
}
