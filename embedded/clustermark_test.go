package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFolderRemembersItsCluster(t *testing.T) {
	a := &membership{cluster: "prod", node: "a"}
	for name, tc := range map[string]struct {
		prepare  func(t *testing.T, d *dataDir)
		as       *membership
		refused  string // "" if it is taken
		wantFile string
	}{
		"new, alone":       {as: nil, wantFile: "standalone"},
		"new, a node":      {as: a, wantFile: "member prod a"},
		"old, alone":       {prepare: withStream, as: nil, wantFile: "standalone"},
		"old, a node":      {prepare: withStream, as: a, refused: "was made by an engine that stood alone"},
		"alone, a node":    {prepare: marked(nil), as: a, refused: "engine restore FILE into the cluster"},
		"the same node":    {prepare: marked(a), as: a, wantFile: "member prod a"},
		"a node, alone":    {prepare: marked(a), as: nil, refused: "start it with --cluster prod --node a"},
		"another node":     {prepare: marked(a), as: &membership{cluster: "prod", node: "b"}, refused: "is that of node a of the cluster prod, and this is node b of prod"},
		"another cluster":  {prepare: marked(a), as: &membership{cluster: "test", node: "a"}, refused: "this is node a of test"},
		"a damaged mark":   {prepare: func(t *testing.T, d *dataDir) { write(t, d, memberFile, "member prod") }, as: a, refused: "the file is damaged"},
		"a store, no more": {prepare: func(t *testing.T, d *dataDir) { write(t, d, "store/x", "") }, as: a, wantFile: "member prod a"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := openDataDir(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if tc.prepare != nil {
				tc.prepare(t, d)
			}
			err = d.markMember(tc.as)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) || tc.prepare == nil {
					t.Fatalf("%v, want %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(d.path, memberFile))
			if err != nil || strings.TrimSpace(string(got)) != tc.wantFile {
				t.Fatalf("%q %v, want %q", got, err, tc.wantFile)
			}
			if name, err := d.node(); tc.as != nil && (err != nil || name != tc.as.node) {
				t.Fatalf("the folder's node is %q %v", name, err)
			}
		})
	}
}

// The files by which a member's folder is known.
func TestTheFolderOfAMember(t *testing.T) {
	golden := map[string]string{versionFile: "4\n", memberFile: "member prod a\n", nodeFile: "a\n"}
	made, kept := t.TempDir(), t.TempDir()
	for name, text := range golden {
		write(t, &dataDir{path: kept}, name, text)
	}
	for _, dir := range []string{made, kept} {
		d, err := openDataDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for range 2 { // it starts again
			if err := d.markMember(&membership{cluster: "prod", node: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		for name, want := range golden {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
				t.Errorf("%s is %q %v, want %q", name, got, err, want)
			}
		}
	}
}

func write(t *testing.T, d *dataDir, file, text string) {
	t.Helper()
	path := filepath.Join(d.path, file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func withStream(t *testing.T, d *dataDir) {
	write(t, d, "jetstream/WORK/streams/WORK_EVENTS_0/meta.inf", "{}")
}

func marked(m *membership) func(*testing.T, *dataDir) {
	return func(t *testing.T, d *dataDir) {
		if err := d.markMember(m); err != nil {
			t.Fatal(err)
		}
	}
}

// An engine refuses the folder before a server starts in it.
func TestStandaloneFolderIsNoMembers(t *testing.T) {
	alone := Options{Dir: filepath.Join(t.TempDir(), "data"), NATSListen: "127.0.0.1:0", HTTP: "off"}
	e, err := Start(testContext(t), alone)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	o := clusterOptions(t, 3)[0]
	o.Dir = alone.Dir
	if _, err := Start(testContext(t), o); !errors.Is(err, ErrOtherMember) {
		t.Fatalf("%v, want ErrOtherMember", err)
	}
	e, err = Start(testContext(t), alone)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
}
