package events

import (
	"strconv"
)

// Count is a number with its noun: "1 item", "2 items".
func Count[T ~int | ~int64 | ~uint32](n T, noun string) string {
	text := strconv.FormatInt(int64(n), 10) + " " + noun
	if n != 1 {
		text += "s"
	}
	return text
}
