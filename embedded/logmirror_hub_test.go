package embedded

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// A mirror follows a hub of three nodes through one that does not own the log, and goes on
// under another owner.
func TestMirrorOfACluster(t *testing.T) {
	slow(t)
	t.Parallel()
	all := clusterOptions(t, 3)
	leaves, engines, errs := make([]string, 3), make([]*Engine, 3), make([]error, 3)
	var starting sync.WaitGroup
	for i := range all {
		leaves[i] = need.Address(t).String()
		all[i].Config.Leaf = mirroredHub("", leaves[i]).Config.Leaf
		starting.Go(func() { engines[i], errs[i] = Start(testContext(t), all[i]) })
	}
	starting.Wait()
	owner := 0
	for i, e := range engines {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		t.Cleanup(func() { (&node{e, all[i]}).stop(t) })
		if e.ledger.lease.owns.Load() {
			owner = i
		}
	}
	via := (owner + 1) % 3
	first := submit(t, engines[owner], wire.Submit{Type: "parcel"})
	mo := mirrorOptions(t.TempDir(), leaves[via])
	mo.Keep = time.Hour
	m := mustStartMirror(t, mo)
	caughtUp(t, m, engines[owner])
	if got := get(t, m.e, first); got.ID != first.ID {
		t.Errorf("%+v", got)
	}
	if why := request[wire.WhyReply](t, m.e, wire.APIWhy, wire.Why{ID: first.ID}); len(why.Reasons) == 0 {
		t.Errorf("why, which the owner says: %+v", why)
	}
	if err := engines[owner].Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	second := submit(t, engines[via], wire.Submit{Type: "parcel"})
	heir := engines[via]
	if !heir.ledger.lease.owns.Load() {
		heir = engines[(owner+2)%3]
	}
	caughtUp(t, m, heir)
	if got := get(t, m.e, second); got.State != events.StateQueued {
		t.Errorf("%+v", got)
	}
	mustVerify(t, m.e)
}

// Over TLS a mirror follows the hub whose certificate its CA has signed, and no other.
func TestMirrorOverTLS(t *testing.T) {
	slow(t)
	t.Parallel()
	cert, key, ca := nodeCertificate(t, t.TempDir())
	_, _, otherCA := nodeCertificate(t, t.TempDir())
	leaf := need.Address(t).String()
	o := mirroredHub(t.TempDir(), leaf)
	o.Config.Leaf.TLSCert, o.Config.Leaf.TLSKey = cert, key
	hub := mustStart(t, o)
	item := submit(t, hub, wire.Submit{Type: "parcel"})
	over := func(ca string) *Mirror {
		mo := mirrorOptions(t.TempDir(), "tls://"+leaf)
		mo.CA, mo.Options.HTTP = ca, config.Off
		return mustStartMirror(t, mo)
	}
	m := over(ca)
	caughtUp(t, m, hub)
	if got := get(t, m.e, item); got.ID != item.ID {
		t.Errorf("%+v", got)
	}
	mustVerify(t, m.e)
	wrong := over(otherCA)
	until(t, "it says that it is cut off", func() bool { return strings.Contains(wrong.State().CutOff, "certificate") })
	if n := wrong.e.ledger.store.Applied(); n != 0 {
		t.Errorf("it has %d events of a hub whose certificate it does not trust", n)
	}
}
