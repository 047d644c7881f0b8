package console

import (
	"slices"
	"testing"
)

// A script passes --after "$PREVIOUS", which is empty the first time.
func TestNoIDs(t *testing.T) {
	var ids []string
	for _, s := range []string{"", "01JD3V6YB2M4C9W8ZK5T7QXRNE,01JD3V6YB2M4C9W8ZK5T7QXRNF", ""} {
		if err := IDs(&ids)(s); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
	}
	if !slices.Equal(ids, []string{"01JD3V6YB2M4C9W8ZK5T7QXRNE", "01JD3V6YB2M4C9W8ZK5T7QXRNF"}) {
		t.Errorf("got %v", ids)
	}
	if err := IDs(&ids)("x"); err == nil {
		t.Error("x was taken for an id")
	}
}
