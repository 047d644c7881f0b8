package wire_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func assigned() []wire.Assigned {
	return []wire.Assigned{
		{ID: "01JD3V6YB2M4C9W8ZK5T7QXRNE", Type: "email", Token: "a1", Attempt: 1, Lease: events.Millis(30_000), Timeout: events.Millis(60_000), Params: json.RawMessage(`{"n":"]}"}`)},
		{ID: "01JD3V6YB2M4C9W8ZK5T7QXRNF", Type: "email", Token: "a2", Attempt: 3, Lease: events.Millis(30_000), Trace: "00-1-2-01", Params: json.RawMessage(`null`)},
	}
}

func TestAssigned(t *testing.T) {
	labelled := assigned()
	labelled[1].Labels, labelled[1].Trace = map[string]string{"k<": `v"`}, "ü"
	again := assigned()
	again[0].Left = wire.Left{Checkpoint: json.RawMessage(`[1, 2]`), Continuation: &wire.Continuation{Name: "n", Children: json.RawMessage(`[]`)}}
	again[1].Left = wire.Left{Waited: &wire.EndedWait{Ended: events.WaitSignalled, Signals: json.RawMessage(`[{"name":"go"}]`)}}
	for name, list := range map[string][]wire.Assigned{"plain": assigned(), "with labels": labelled, "run before": again} {
		var b []byte
		for i := range list {
			b = wire.AppendAssigned(b, &list[i])
			list[i].Bytes = len(list[i].Params)
		}
		b = append(b, ']')
		var want []wire.Assigned
		if err := json.Unmarshal(b, &want); err != nil || !reflect.DeepEqual(want, list) {
			t.Errorf("%s: as JSON it is %+v, %v", name, want, err)
		}
		if got, err := wire.DecodeAssigned(nil, b); err != nil || !reflect.DeepEqual(got, list) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	none := wire.Assigned{ID: "x"}
	if got, err := wire.DecodeAssigned(nil, append(wire.AppendAssigned(nil, &none), ']')); err != nil || string(got[0].Params) != "null" {
		t.Errorf("without params: %+v, %v", got, err)
	}
	// Another's writing of the same, and what is none.
	if got, err := wire.DecodeAssigned(nil, []byte(` [ {"params": [1], "id": "x"} ] `)); err != nil || len(got) != 1 || string(got[0].Params) != "[1]" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{``, `[`, `{}`, `[{"id":"x","type":"t","token":"1","attempt":1,"lease_ms":1,"bytes":99,"params":1}`} {
		if got, err := wire.DecodeAssigned(nil, []byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}

func FuzzDecodeAssigned(f *testing.F) {
	var b []byte
	for _, a := range assigned() {
		b = wire.AppendAssigned(b, &a)
	}
	f.Add(append(b, ']'))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := wire.DecodeAssigned(nil, data)
		if err != nil {
			return
		}
		for _, a := range list {
			if len(a.Params) > len(data) {
				t.Errorf("%d bytes of %d", len(a.Params), len(data))
			}
		}
	})
}
