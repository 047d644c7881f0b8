package rest_test

import (
	"context"
	"os/exec"
	"regexp"
	"testing"

	"github.com/streamwright/streamwright/internal/need"
)

// A new user needs nothing but curl.
func TestNewUserWithCurl(t *testing.T) {
	need.Program(t, "curl")
	r := start(t, "")
	r.work("greet", 2, echo)
	r.work("hold", 2, func(ctx context.Context, _ *item) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	out, err := exec.CommandContext(r.ctx, "sh", "testdata/newuser.sh", r.e.HTTP(), t.TempDir()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !regexp.MustCompile(`^done \w{26}\ncancelled \w{26}\nwatched \d+ events\nrefused 400\n$`).Match(out) {
		t.Errorf("it says %s", out)
	}
}
