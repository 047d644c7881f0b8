package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// A server that was standalone and starts as a member of a cluster deletes its
// streams: JetStream removes what the cluster's meta layer does not know. And a
// member that starts alone has streams that nobody leads. So the data folder
// remembers what it was made as.

// memberFile says what the folder was made as: "standalone", "member CLUSTER
// NODE", or "mirror SITE", with the namespace behind it if that is not the default one.
const memberFile = "CLUSTER"

// What the marks of the folders of sites begin with.
const (
	mirrorMark = "mirror "
	siteMark   = "site " // at the edge; their folders have a file of their own for it
)

// standalone is the word of a folder that belongs to no cluster.
const standalone = "standalone"

// ErrOtherMember is wrapped by the error of a data folder that was made standalone
// and is to be a member of a cluster, or the other way round.
var ErrOtherMember = errors.New("the data folder was made as something else")

// markOf returns the mark of a node; of a server that stands alone for nil.
func markOf(m *membership) string {
	if m == nil {
		return standalone
	}
	return "member " + m.cluster + " " + m.node
}

// markMember refuses a folder that was made as something else than m, which is nil
// for a server that stands alone. It marks a folder without a mark, before a server
// first starts in it.
func (d *dataDir) markMember(m *membership) error {
	if d == nil {
		return nil
	}
	want := markOf(m)
	have, err := d.mark()
	switch {
	case err != nil:
		return fmt.Errorf("read what the data folder was made as: %w", err)
	case have != "" && have != want:
		return events.WithCode(events.CodeBadConfig, d.refuseMember(have, m))
	}
	if _, err := os.Stat(filepath.Join(d.path, memberFile)); err == nil {
		return nil
	}
	if m != nil {
		// The lease knows the node by this name.
		if err := replaceFile(filepath.Join(d.path, nodeFile), m.node+"\n", true); err != nil {
			return fmt.Errorf("name the data folder: %w", err)
		}
	}
	if err := replaceFile(filepath.Join(d.path, memberFile), want+"\n", true); err != nil {
		return fmt.Errorf("mark the data folder: %w", err)
	}
	return nil
}

// markMirror refuses a folder that is not that of the site's mirror of the namespace, and marks
// one without a mark.
func (d *dataDir) markMirror(site string, ns events.Namespace) error {
	have, err := d.mark()
	if err != nil {
		return fmt.Errorf("read what the data folder was made as: %w", err)
	}
	want := mirrorMark + site
	if ns != events.DefaultNamespace {
		want += " " + string(ns)
	}
	other, of, mirrors := mirrorOf(have)
	switch {
	case have == want:
		return nil
	case have == "":
		return replaceFile(filepath.Join(d.path, memberFile), want+"\n", true)
	case mirrors && other == site:
		err = fmt.Errorf("open data folder: %w: %s is a mirror of the namespace %s, not of %s: use another folder", ErrOtherMember, d.path, of, ns)
	case mirrors:
		err = fmt.Errorf("open data folder: %w: %s is the mirror of the site %s: use that name, or another folder", ErrOtherMember, d.path, other)
	default:
		err = fmt.Errorf("open data folder: %w: %s is the data folder of an engine, or of a site at the edge: give the mirror another one", ErrOtherMember, d.path)
	}
	return events.WithCode(events.CodeBadConfig, err)
}

// mirrorOf returns the site and the namespace of a mirror's mark; false for any other mark.
func mirrorOf(mark string) (site string, ns events.Namespace, ok bool) {
	rest, ok := strings.CutPrefix(mark, mirrorMark)
	site, of, _ := strings.Cut(rest, " ")
	return site, cmp.Or(events.Namespace(of), events.DefaultNamespace), ok
}

// mark returns what the folder was made as, empty if it is new. A folder with
// streams and no mark is from before there were clusters.
func (d *dataDir) mark() (string, error) {
	if site, err := readShort(filepath.Join(d.path, siteFile)); err == nil {
		return siteMark + strings.TrimSpace(site), nil
	}
	b, err := os.ReadFile(filepath.Join(d.path, memberFile))
	if err == nil {
		mark := strings.TrimSpace(string(b))
		if f := strings.Fields(mark); (len(f) == 2 || len(f) == 3) && strings.HasPrefix(mark, mirrorMark) {
			return mark, nil
		}
		if f := strings.Fields(mark); mark != standalone && (len(f) != 3 || f[0] != "member") {
			return "", fmt.Errorf("%s holds %.100q: the file is damaged: correct it to %q, or %q", filepath.Join(d.path, memberFile), mark, standalone, "member CLUSTER NODE")
		}
		return mark, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	old, err := d.hasStreams()
	if err != nil || !old {
		return "", err
	}
	return standalone, nil
}

// hasStreams reports whether a server has made streams in the folder.
func (d *dataDir) hasStreams() (bool, error) {
	found, err := filepath.Glob(filepath.Join(d.path, "jetstream", "*", "streams", "*"))
	return len(found) > 0, err
}

// refuseMember returns the error of a folder that was made as have.
func (d *dataDir) refuseMember(have string, m *membership) error {
	if site, ok := strings.CutPrefix(have, siteMark); ok {
		return fmt.Errorf("open data folder: %w: %s is that of the site %s at the edge, and may hold what was published there: start it with engine edge --name %s, or use another folder", ErrOtherMember, d.path, site, site)
	}
	if site, ns, ok := mirrorOf(have); ok {
		start := "engine mirror --name " + site
		if ns != events.DefaultNamespace {
			start += " --namespace " + string(ns)
		}
		return fmt.Errorf("open data folder: %w: %s is a mirror of a log, of the site %s: start it with %s, or use another folder", ErrOtherMember, d.path, site, start)
	}
	if have == standalone {
		return fmt.Errorf("open data folder: %w: %s was made by an engine that stood alone, and JetStream would delete its streams in a cluster: start node %s with an empty folder, then bring the data over: engine backup FILE from the engine alone, and engine restore FILE into the cluster", ErrOtherMember, d.path, m.node)
	}
	f := strings.Fields(have)
	if m == nil {
		return fmt.Errorf("open data folder: %w: %s is that of node %s of the cluster %s, whose streams no server can lead alone: start it with --cluster %s --node %s and its peers; to run the data alone, engine restore a backup into an empty folder", ErrOtherMember, d.path, f[2], f[1], f[1], f[2])
	}
	return fmt.Errorf("open data folder: %w: %s is that of node %s of the cluster %s, and this is node %s of %s: use that node's own folder, or an empty one for a new node; to move the data to another cluster, engine restore a backup into it", ErrOtherMember, d.path, f[2], f[1], m.node, m.cluster)
}
