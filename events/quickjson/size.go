package quickjson

import "encoding/json"

// What values of these take at most.
const (
	MaxInt  = 20
	MaxUint = 20
	MaxBool = len("false")
	MaxTime = len(`"2006-01-02T15:04:05.999999999Z"`)
	MaxWord = 32 // the longest of any type is an id, with 28
)

// MaxText bounds the length of a string of n bytes: an escape takes six.
func MaxText(n int) int { return 6*n + len(`""`) }

// MaxList bounds the length of a list.
func MaxList[T any](list []T, element func(*T) int) int {
	n := len("[]")
	for i := range list {
		n += len(",") + element(&list[i])
	}
	return n
}

// SizeOf returns the length of what encoding/json makes of v.
func SizeOf(v any) int {
	data, _ := json.Marshal(v) // who encodes it gets the error
	return len(data)
}
