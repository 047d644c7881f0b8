package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

func TestReadStrictRefuses(t *testing.T) {
	for doc, says := range map[string]string{
		`{"Type":"a"}`:                                          `the field "Type" is not known: write it as "type"`,
		`{"type":"a","type":"b"}`:                               `the field "type" occurs twice`,
		`{"type":"a","Type":"b"}`:                               `write it as "type"`,
		`{"type":"a","labels":{"k":"1","k":"2"}}`:               `the field "labels.k" occurs twice`,
		`{"type":"a","t\u0079pe":"b"}`:                          `the field "type" occurs twice`,
		`{"type":"a","max_attempts":0}`:                         "max_attempts is 0: give 1 or more, or leave it out",
		`{"type":"a","timeout_ms" : -0 }`:                       "timeout_ms is 0",
		`{"type":"a","estimated_duration_ms":0}`:                "estimated_duration_ms is 0",
		`{"type":"a","colour":"red"}`:                           `"colour"`,
		`{"type":"a","available_at":"tomorrow"}`:                `available_at is not a time: write it as "2030-01-31T08:00:00Z"`,
		`{"type":"a","expires_at":5}`:                           `expires_at is not a time`,
		`{"type":"a","labels":5}`:                               `labels is a number: write an object, such as {"name":"value"}`,
		`{"type":"a","labels":{"k":"v","n":5}}`:                 `labels.n is a number: write a text, in double quotes`,
		`{"type":"a","after":"x"}`:                              `after is a text: write a list, in square brackets`,
		`{"type":"a","after":["x",7]}`:                          `after[1] is a number: write a text`,
		`{"type":"a","max_attempts":"3"}`:                       `max_attempts is a text: write a whole number, without quotes`,
		`"x"`:                                                   `the request is a text: write an object`,
		`[{"type":"a"},{"type":"b","available_at":"1.2.2030"}]`: `[1].available_at is not a time`,
		`{"type":"a"} {}`:                                       "something follows the JSON document",
		`[{"type":"a"},{"type":"a","Id":"x","id":"x"}]`:         `the field "Id" is not known: write it as "id"`,
	} {
		var v any = new(Submit)
		if doc[0] == '[' {
			v = new([]Submit)
		}
		err := ReadStrict([]byte(doc), v)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", doc, err, says)
		}
		if _, _, ok := DecodeSubmits([]byte(doc)); ok {
			t.Errorf("%s: DecodeSubmits takes it", doc)
		}
	}
	for doc, v := range map[string]any{
		`{"name":"n","type":"t","every_ms":0}`:                            new(Schedule),
		`{"id":"x","max_attempts":0}`:                                     new(Replay),
		`{"action":"replay","select":{"limit":0}}`:                        new(Bulk),
		`{"type":"a","for_ms":0}`:                                         new(Pause),
		`{"id":"x","delay_ms":0}`:                                         new(Reschedule),
		`{"name":"n","count":0}`:                                          new(Batch),
		`{"callback":{"type":"a","max_attempts":0}}`:                      new(Batch),
		`{"a":{"b":1,"b":2}}`:                                             new(map[string]any),
		`{"id":"x","children":[{"type":"a","Params":1}],"event":"spawn"}`: new(Report),
	} {
		var refused *events.Error
		if err := ReadStrict([]byte(doc), v); !errors.As(err, &refused) {
			t.Errorf("%s: got %v, want a refusal", doc, err)
		}
	}
}

// What is in order is read as encoding/json reads it; params are the submitter's own.
func TestReadStrictReads(t *testing.T) {
	for _, doc := range []string{
		`{"type":"a","params":{"A":1,"a":2,"a":3},"priority":"high","labels":{"k":"v}","l":"\"]"},"max_attempts":null,"after":["x","y"],"dedup_window_ms":0,"delay_ms":0}`,
		" [ { \"type\" : \"a\" , \"timeout_ms\" : 10 , \"available_at\":\"2030-01-31T08:00:00Z\" } , {} , null ] ",
		`[]`, `{}`, `null`,
	} {
		var got, want any = new(Submit), new(Submit)
		if strings.Contains(doc, "[ {") || doc == "[]" {
			got, want = new([]Submit), new([]Submit)
		}
		if err := ReadStrict([]byte(doc), got); err != nil {
			t.Errorf("%s: %v", doc, err)
		}
		if err := json.Unmarshal([]byte(doc), want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v (%v)", doc, got, want, err)
		}
	}
}

// FuzzReadStrict: whatever encoding/json reads can be walked over, and what passes is
// what encoding/json reads.
func FuzzReadStrict(f *testing.F) {
	f.Add([]byte(`[{"type":"a","params":[{"x":"}\\"}],"labels":{"k":"v"},"priority":7}]`))
	f.Add([]byte(`[1,"x",{"a":null}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var one, same Submit
		if ReadStrict(data, &one) == nil && (json.Unmarshal(data, &same) != nil || !reflect.DeepEqual(one, same)) {
			t.Errorf("%q is read as %v, and by encoding/json as %v", data, one, same)
		}
		for _, v := range []any{new([]Submit), new(any), new(map[string]json.RawMessage), new(Report), new(Batch)} {
			_ = ReadStrict(data, v)
		}
	})
}
