package wire

import (
	"encoding/json"
	"strconv"
)

// Assigned is an item that the engine has claimed for a worker and sends to its inbox. A
// message has an array of them.
type Assigned struct {
	ID        string            `json:"id"`
	Type      string            `json:"type"`
	Token     string            `json:"token"`
	Attempt   int               `json:"attempt"`
	LeaseMS   int64             `json:"lease_ms"`
	TimeoutMS int64             `json:"timeout_ms,omitempty"`
	Trace     string            `json:"traceparent,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Ask says that earlier runs have left something for this one: the worker reports
	// the claim, with start, and the answer has it.
	Ask bool `json:"ask,omitempty"`
	// Bytes is the length of Params, for readers that are no JSON parsers.
	Bytes  int             `json:"bytes"`
	Params json.RawMessage `json:"params"`
}

// MaxAssignedBytes is the size from which a message of assigned items takes no further
// one.
const MaxAssignedBytes = 256 << 10

// AppendAssigned appends an item to the body of a message, which begins empty and ends
// with a "]". Params are taken as they are.
func AppendAssigned(b []byte, a *Assigned) []byte {
	if len(b) == 0 {
		b = append(b, '[')
	} else {
		b = append(b, ',')
	}
	b = append(append(b, `{"id":"`...), a.ID...)
	b = append(append(b, `","type":"`...), a.Type...)
	b = append(append(b, `","token":"`...), a.Token...)
	b = strconv.AppendInt(append(b, `","attempt":`...), int64(a.Attempt), 10)
	b = strconv.AppendInt(append(b, `,"lease_ms":`...), a.LeaseMS, 10)
	if a.TimeoutMS != 0 {
		b = strconv.AppendInt(append(b, `,"timeout_ms":`...), a.TimeoutMS, 10)
	}
	if a.Trace != "" {
		b = appendText(append(b, `,"traceparent":`...), a.Trace)
	}
	if len(a.Labels) > 0 {
		labels, _ := json.Marshal(a.Labels) // it can't fail
		b = append(append(b, `,"labels":`...), labels...)
	}
	if a.Ask {
		b = append(b, `,"ask":true`...)
	}
	params := a.Params
	if len(params) == 0 {
		params = json.RawMessage("null")
	}
	b = strconv.AppendInt(append(b, `,"bytes":`...), int64(len(params)), 10)
	b = append(append(b, `,"params":`...), params...)
	return append(b, '}')
}

func appendText(b []byte, s string) []byte {
	if plainText(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	text, _ := json.Marshal(s) // it can't fail
	return append(b, text...)
}

// DecodeAssigned reads a message of assigned items. Their Params refer to data.
func DecodeAssigned(list []Assigned, data []byte) ([]Assigned, error) {
	begin := len(list)
	if list, ok := decodeAssigned(list, data); ok {
		return list, nil
	}
	var all []Assigned
	err := json.Unmarshal(data, &all)
	return append(list[:begin], all...), err
}

// decodeAssigned reads the form that AppendAssigned writes, without labels.
func decodeAssigned(list []Assigned, data []byte) (_ []Assigned, ok bool) {
	s := quick{b: data}
	var last Assigned // whose type is most likely the next one's
	s.list(func() {
		var a Assigned
		s.lit(`{"id":"`)
		a.ID = string(s.text())
		s.lit(`,"type":"`)
		a.Type = again(s.text(), last.Type)
		s.lit(`,"token":"`)
		a.Token = string(s.text())
		s.lit(`,"attempt":`)
		a.Attempt = int(s.int())
		s.lit(`,"lease_ms":`)
		a.LeaseMS = s.int()
		if s.opt(`,"timeout_ms":`) {
			a.TimeoutMS = s.int()
		}
		if s.opt(`,"traceparent":"`) {
			a.Trace = string(s.text())
		}
		a.Ask = s.opt(`,"ask":true`)
		s.lit(`,"bytes":`)
		a.Bytes = int(s.int())
		s.lit(`,"params":`)
		if a.Bytes < 1 || a.Bytes > len(s.b)-s.i {
			s.bad = true
			return
		}
		a.Params = json.RawMessage(s.b[s.i : s.i+a.Bytes : s.i+a.Bytes])
		s.i += a.Bytes
		s.lit(`}`)
		last = a
		list = append(list, a)
	})
	return list, s.whole()
}
