package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/streamwright/streamwright/backup"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
)

// openUsedDir takes the data folder of an engine that is stopped.
func (b *base) openUsedDir(ctx context.Context) error {
	path := b.cfg.Server.Dir
	if _, err := os.Stat(filepath.Join(path, versionFile)); err != nil {
		return fmt.Errorf("restore: %s is no data folder of an engine (%w): a namespace is restored beside the default one: start the engine once, or restore that first", path, err)
	}
	return b.openDir(ctx)
}

// emptyNamespace returns the base of a namespace of which there is nothing yet. Its folder is
// marked. What an interrupted restore has left of it is removed first.
func (b *base) emptyNamespace(ctx context.Context, name events.Namespace, id string) (*base, error) {
	if _, err := eventlog.TipOf(ctx, b.nc, b.names(), b.names().EventStream(0)); err != nil {
		return nil, fmt.Errorf("restore: the log of the namespace default: %w: a namespace is restored beside it: use the engine's folder or NATS server, with its configuration and prefix", err)
	}
	if err := b.clearNamespace(ctx, name); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	ns, err := b.namespace(events.NamespaceInfo{Name: name})
	if err != nil {
		return nil, err
	}
	if ns.nc = b.nc; ns.dir == nil {
		return ns, nil
	}
	// From here on the engine does not start the namespace.
	if err := replaceFile(filepath.Join(ns.dir.path, restoreFile), id+"\n", true); err != nil {
		return nil, fmt.Errorf("restore: mark the folder: %w", err)
	}
	return ns, nil
}

// clearNamespace removes what an interrupted restore has left of a namespace in a data
// folder, and refuses one that holds anything else. On an existing NATS [backup.Backup]
// looks at the streams.
func (b *base) clearNamespace(ctx context.Context, name events.Namespace) error {
	if b.dir == nil {
		return nil
	}
	path := b.dir.namespacePath(name)
	if _, err := os.Stat(filepath.Join(path, restoreFile)); err == nil {
		if err := b.dropStreams(ctx, name); err != nil {
			return fmt.Errorf("remove what an interrupted restore has left: %w", err)
		}
		return os.RemoveAll(path) // with the mark, as nothing is left
	}
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, own, err := b.ownStreams(ctx, name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		own = append(own, filepath.Join(path, e.Name()))
	}
	own = slices.DeleteFunc(own, func(s string) bool { return s == filepath.Join(path, restoreFile+".tmp") })
	if len(own) > 0 {
		return fmt.Errorf("%w: the namespace %s has %s: choose another name, or remove that namespace first", backup.ErrExists, name, own[0])
	}
	return nil
}

// restoredNamespace has a restored namespace outlive a power loss, and takes the mark off
// its folder.
func (d *dataDir) restoredNamespace(name events.Namespace) error {
	folder := filepath.Join(d.path, namespaceFolder)
	if err := errors.Join(syncTree(filepath.Join(d.path, "jetstream")), syncDir(d.path), syncDir(folder)); err != nil {
		return fmt.Errorf("restore: sync the data folder: %w", err)
	}
	return restored(d.namespacePath(name))
}
