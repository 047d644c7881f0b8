package wire_test

import (
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func TestUser(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   string
	}{
		{[]string{`{"acc":"WORK_ann","rtt":12345}`}, "ann"}, {[]string{`{"acc":"WORK"}`}, ""}, {[]string{`{"acc":"WORK_a_b-c"}`}, "a_b-c"},
		{[]string{`{"acc":"TEAM"}`}, "TEAM"}, {[]string{`{"acc":"WORK_"}`}, "WORK_"},
	} {
		if got, err := wire.Default.User(map[string][]string{wire.HeaderRequestInfo: c.values}); err != nil || got != c.want {
			t.Errorf("%q is %q, %v", c.values, got, err)
		}
	}
	if got, err := wire.Default.User(nil); err != nil || got != "" {
		t.Errorf("without the header: %q, %v", got, err)
	}
	for _, values := range [][]string{nil, {}, {"{}"}, {"x"}, {`{"acc":5}`}, {`{"acc":"WORK"}`, `{"acc":"WORK"}`}, {strings.Repeat(" ", 5000)}} {
		_, err := wire.Default.User(map[string][]string{wire.HeaderRequestInfo: values})
		wantRefused(t, err, events.CodeBadHeader, "leave it to the server")
	}
}
