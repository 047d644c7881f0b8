package wire

import (
	"bytes"
	"encoding/json"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/quickjson"
)

// Submissions, reports and their answers are most of the requests, so their JSON is
// written and read by generated code. It leaves what is rare to encoding/json, by
// [ReadStrict]: see package quickjson.

// AppendSubmit appends s as JSON. Its params stay as they are.
func AppendSubmit(b []byte, s *Submit) ([]byte, error) {
	w := quickjson.Writer{B: b}
	s.appendJSON(&w)
	return w.B, w.Err
}

// DecodeSubmits reads one Submit, or an array of at most events.MaxSubmitBatch. ok is
// false for what it leaves to encoding/json.
func DecodeSubmits(data []byte) (list []Submit, array, ok bool) {
	if array = bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte{'['}); array {
		// With a bound, for it may as well stand in params.
		list = make([]Submit, 0, min(bytes.Count(data, []byte(`"type"`)), events.MaxSubmitBatch))
		list, ok = readList(list, data, events.MaxSubmitBatch, (*Submit).readJSON)
		return list, true, ok
	}
	var r quickjson.Reader
	r.Reset(data)
	list = make([]Submit, 1)
	list[0].readJSON(&r)
	return list, false, r.Whole()
}

// EncodeSubmitted appends the answers as a JSON array.
func EncodeSubmitted(b []byte, answers []Submitted) ([]byte, error) {
	return appendList(b, answers, (*Submitted).appendJSON)
}

// DecodeSubmitted reads an array of answers. ok is false for what it leaves to
// encoding/json. want is the number of answers that are expected.
func DecodeSubmitted(data []byte, want int) (list []Submitted, ok bool) {
	return readList(make([]Submitted, 0, want), data, want, (*Submitted).readJSON)
}

// EncodeReports appends the reports as a JSON array. Their documents stay as they are.
func EncodeReports(b []byte, reports []Report) ([]byte, error) {
	return appendList(b, reports, (*Report).appendJSON)
}

// DecodeReports reads an array of reports. ok is false for what it leaves to
// encoding/json.
func DecodeReports(data []byte) (reports []Report, ok bool) {
	// At least so many bytes each, so that a short text does not ask for much.
	return readList(make([]Report, 0, len(data)/128+1), data, len(data), (*Report).readJSON)
}

// EncodeReported appends the answers as a JSON array.
func EncodeReported(b []byte, answers []Reported) ([]byte, error) {
	return appendList(b, answers, (*Reported).appendJSON)
}

// DecodeReported reads an array of answers into list. ok is false for what it leaves to
// encoding/json.
func DecodeReported(list []Reported, data []byte) (_ []Reported, ok bool) {
	return readList(list, data, len(list)+len(data), (*Reported).readJSON)
}

// AppendAssigned appends an item to the body of a message, which begins empty and ends
// with a "]". It sets the item's Bytes.
func AppendAssigned(b []byte, a *Assigned) []byte {
	if len(a.Params) == 0 {
		a.Params = json.RawMessage("null")
	}
	a.Bytes = len(a.Params)
	w := quickjson.Writer{B: append(b, ',')}
	if len(b) == 0 {
		w.B[0] = '['
	}
	a.appendJSON(&w)
	return w.B // it can't fail
}

// DecodeAssigned reads a message of assigned items.
func DecodeAssigned(list []Assigned, data []byte) ([]Assigned, error) {
	begin := len(list)
	if list, ok := readList(list, data, begin+len(data), (*Assigned).readJSON); ok {
		return list, nil
	}
	var all []Assigned
	err := json.Unmarshal(data, &all)
	return append(list[:begin], all...), err
}

func appendList[T any](b []byte, list []T, element func(*T, *quickjson.Writer)) ([]byte, error) {
	w := quickjson.Writer{B: append(b, '[')}
	for i := range list {
		w.Element(i)
		element(&list[i], &w)
	}
	return append(w.B, ']'), w.Err
}

// readList appends the elements of an array, which must not be empty, up to a length of
// list.
func readList[T any](list []T, data []byte, most int, element func(*T, *quickjson.Reader)) (_ []T, ok bool) {
	var r quickjson.Reader
	r.Reset(data)
	begin := len(list)
	for n := 0; r.Element(n); n++ {
		if len(list) == most {
			return nil, false
		}
		list = append(list, *new(T))
		element(&list[len(list)-1], &r)
	}
	return list, r.Whole() && len(list) > begin
}
