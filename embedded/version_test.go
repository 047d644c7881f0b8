package embedded

import (
	"runtime/debug"
	"testing"
)

func TestModuleVersion(t *testing.T) {
	ours := func(v string) debug.Module { return debug.Module{Path: module, Version: v} }
	dep := ours("v0.2.0")
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"installed":    {&debug.BuildInfo{Main: ours("v0.1.3")}, "0.1.3"},
		"working tree": {&debug.BuildInfo{Main: ours("(devel)")}, "dev"},
		"a dependency": {&debug.BuildInfo{Main: debug.Module{Path: "example.org/shop", Version: "v9.0.0"}, Deps: []*debug.Module{&dep}}, "0.2.0"},
		"a test":       {&debug.BuildInfo{Main: ours("")}, "dev"},
	} {
		if got := moduleVersion(c.info, true); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := moduleVersion(nil, false); got != "dev" {
		t.Errorf("without build information: %q", got)
	}
}
