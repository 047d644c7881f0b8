package quickjson

import (
	"fmt"
	"testing"
	"time"
)

// Every day of the year is read as package time reads it, and, but for 29 February, not by
// it: an engine is as fast on the 31st as on the 1st.
func TestDays(t *testing.T) {
	for month := range 14 {
		for day := range 33 {
			text := fmt.Sprintf("2028-%02d-%02dT23:59:59.5Z", month, day)
			want, err := time.Parse(time.RFC3339, text)
			got, n := utc([]byte(`"` + text + `"`))
			switch leapDay := month == 2 && day == 29; {
			case n == 0:
				if err == nil && !leapDay {
					t.Errorf("%s is left to package time", text)
				}
			case err != nil || leapDay || !got.Equal(want) || n != len(text)+2:
				t.Errorf("%s: read %s, %d bytes; want %s, %v", text, got, n, want, err)
			}
		}
	}
}
