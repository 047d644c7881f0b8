package wire

import (
	"reflect"
	"testing"
	"time"
)

// Every filter narrows a selection, but for the state.
func TestFiltersNarrow(t *testing.T) {
	none := map[string]bool{"List": true, "State": true, "Limit": true, "Cursor": true, "MinPosition": true}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Selection]()) {
		var s Selection
		switch v := reflect.ValueOf(&s).Elem().FieldByIndex(f.Index); v.Interface().(type) {
		case string, Position:
			v.SetString("1")
		case int:
			v.SetInt(1)
		case time.Time:
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
		}
		if got := s.Narrow(); got == none[f.Name] {
			t.Errorf("with a %s, Narrow says %v", f.Name, got)
		}
	}
}
