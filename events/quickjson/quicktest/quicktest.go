// Package quicktest compares generated JSON code with encoding/json.
package quicktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events/quickjson"
)

// Fuzz compares the code of a type with encoding/json, for any input, after some thousand
// values of the type, whole and damaged. unmarshal is what has the last word on reading:
// json.Unmarshal, or a stricter one.
func Fuzz[T any](f *testing.F, unmarshal func([]byte, any) error, appendJSON func(*T, *quickjson.Writer), readJSON func(*T, *quickjson.Reader)) {
	r := rand.New(rand.NewPCG(1, 2))
	written, read := 0, 0
	check := func(t testing.TB, data []byte) {
		t.Helper()
		w, r := compare(t, data, unmarshal, appendJSON, readJSON)
		if w {
			written++
		}
		if r {
			read++
		}
	}
	for i := range 1_000 {
		x := new(T)
		Fill(r, x)
		data, err := json.Marshal(x)
		if err != nil {
			continue // a value that JSON has no form for
		}
		check(f, data)
		for range 4 {
			bad := bytes.Clone(data)
			for range 1 + r.IntN(2) {
				bad = Damage(r, bad)
			}
			check(f, bad)
		}
		if i < 20 {
			f.Add(data)
		}
	}
	if written < 100 || read < 100 {
		f.Errorf("of 5000 documents, %d were written and %d read", written, read)
	}
	f.Fuzz(func(t *testing.T, data []byte) { check(t, data) })
}

// compare holds both ways to what encoding/json makes of data, and reports which were gone.
func compare[T any](t testing.TB, data []byte, unmarshal func([]byte, any) error, appendJSON func(*T, *quickjson.Writer), readJSON func(*T, *quickjson.Reader)) (written, read bool) {
	t.Helper()
	var want T
	err := unmarshal(data, &want)
	if got, ok := quick(data, readJSON); ok {
		if read = true; err != nil || !reflect.DeepEqual(got, &want) {
			t.Fatalf("%s\nis read as %+v\nwant %+v, %v", data, got, want, err)
		}
	}
	if err != nil {
		return false, read
	}
	inUTC(reflect.ValueOf(&want).Elem())
	general, err := json.Marshal(&want)
	w := quickjson.Writer{}
	appendJSON(&want, &w)
	if (err != nil) != (w.Err != nil) {
		t.Fatalf("%+v is written with the error %v, want %v", want, w.Err, err)
	}
	if err != nil {
		return false, read
	}
	if !bytes.Equal(canonical(w.B), general) {
		t.Fatalf("%+v is written as\n%s\nwant\n%s", want, w.B, general)
	}
	again, ok := quick(w.B, readJSON)
	if !ok && !rare.Match(w.B) && quickjson.Scan(w.B) == len(w.B) && unmarshal(w.B, new(T)) == nil {
		t.Fatalf("%s\nis not read the quick way", w.B)
	}
	if ok {
		inUTC(reflect.ValueOf(again).Elem())
		if twice, err := json.Marshal(again); err != nil || !bytes.Equal(twice, general) {
			t.Fatalf("%s\nis read again as\n%s, %v", w.B, twice, err)
		}
	}
	return true, read
}

// rare are the least numbers, null, and names with escapes.
var rare = regexp.MustCompile(`-9223372036854775808|null|"kind":"\\`)

func quick[T any](data []byte, readJSON func(*T, *quickjson.Reader)) (x *T, ok bool) {
	var r quickjson.Reader
	r.Reset(data)
	x = new(T)
	readJSON(x, &r)
	return x, r.Whole()
}

// canonical is JSON as json.Marshal writes it within another document.
func canonical(data []byte) []byte {
	var b, escaped bytes.Buffer
	if json.Compact(&b, data) != nil {
		return data
	}
	json.HTMLEscape(&escaped, b.Bytes())
	return escaped.Bytes()
}

// Damage changes a document, which must not be empty, in one place.
func Damage(r *rand.Rand, b []byte) []byte {
	const chars = `{}[]",:\ 0123456789-+.eEtfnulrsaZz` + "\x00\x7f\xff\n"
	i, c := r.IntN(len(b)), chars[r.IntN(len(chars))]
	switch r.IntN(3) {
	case 0:
		b[i] = c
	case 1:
		b = append(b[:i], b[i+1:]...)
	case 2:
		b = append(b[:i], append([]byte{c}, b[i:]...)...)
	}
	return b
}

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

// inUTC sets the zone of all times in a value.
func inUTC(v reflect.Value) {
	switch {
	case v.Type() == timeType:
		v.Set(reflect.ValueOf(v.Interface().(time.Time).UTC()))
	case v.Kind() == reflect.Pointer && !v.IsNil():
		inUTC(v.Elem())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				inUTC(v.Field(i))
			}
		}
	case v.Kind() == reflect.Slice && v.Type() != rawType:
		for i := range v.Len() {
			inUTC(v.Index(i))
		}
	}
}

var (
	texts   = []string{"", "a", "claim", "worker-1.a", "01JD3V6YB2M4C9W8ZK5T7QXRNE", "a\"b", `a\b`, "<b>&", "ü\u2028", "line\nline", "a\x7f", "\xff", "\x00", strings.Repeat("long ", 20)}
	docs    = []string{`null`, `{}`, `[1, {"a":"}\"]"}]`, ` { "a" : "<b>" } `, `"ü"`, `1e9`, "\"\u2028\"", `{"type":"x"}`, `"\ud800\n"`}
	numbers = []int64{0, 1, 2, 5, 255, 256, 1 << 31, 1 << 53, 1<<63 - 1, -1 << 63, -1, -300}
	times   = []time.Time{{}, time.Unix(1, 5).UTC(), time.Unix(1e9, 0).UTC(), time.Date(2024, 2, 29, 23, 59, 59, 999999999, time.UTC), time.Unix(9, 0).In(time.FixedZone("x", 3600)), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
)

// Fill sets what a pointer points to at random.
func Fill(r *rand.Rand, p any) { fill(r, reflect.ValueOf(p).Elem(), 0) }

// fill sets a value at random, and half of its fields not at all.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	switch {
	case v.Type() == timeType:
		v.Set(reflect.ValueOf(times[r.IntN(len(times)-r.IntN(2))]))
		return
	case v.Type() == rawType:
		v.SetBytes([]byte(docs[r.IntN(len(docs))]))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(numbers[r.IntN(len(numbers))])
	case reflect.Uint8: // a name, or a small number
		const small = "\x01\x02\x05\x07\x08pr"
		v.SetUint(uint64(small[r.IntN(len(small))]))
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(numbers[r.IntN(len(numbers))]) & (1<<63 - 1)) // more digits are rare
	case reflect.Float64:
		v.SetFloat(r.Float64())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && (r.IntN(2) == 0 && depth < 3 || v.Type().Field(i).Type == rawType) {
				fill(r, v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fill(r, v.Index(i), depth+1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(r, key, depth+1)
			fill(r, value, depth+1)
			v.SetMapIndex(key, value)
		}
	default:
		panic(fmt.Sprintf("a field of type %s can't be filled", v.Type()))
	}
}
