// Package demo is `engine demo`: the whole engine on real input. One work item
// for each file of a folder, real workers that hash and count it, and then the
// proofs: the results against a second computation, the log against itself,
// the store against a rebuild from the log.
package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

const (
	// maxFiles bounds how many files a demo looks at. On a cluster it is less, because each
	// decision is on three disks, or on one thrice.
	maxFiles        = 20_000
	maxClusterFiles = 3000
	// slots is how many files are hashed at once.
	slots    = 8
	workType = "checksum"
)

// Options say what to run on.
type Options struct {
	Dir      string
	Out      io.Writer
	Progress io.Writer // where the progress bar is drawn; nil: nowhere
	Report   *Report   // is filled in, unless it is nil
	// Cluster runs it on three nodes, child processes of this program on loopback ports.
	// Meanwhile the owner of the log is killed, and a standby, and each is started again.
	// The nodes end with this process, whatever that dies of.
	Cluster bool
	// Program is the file of the engine: of the nodes, and of the process that removes what a
	// demo leaves that is killed. Only Cluster can't do without.
	Program string
}

// Report is the outcome of a demo, for programs.
type Report struct {
	Files     int    `json:"files"`
	ElapsedMS int64  `json:"elapsed_ms"` // from the first submission to the last completion
	Equal     int    `json:"equal"`      // results equal to a second computation
	Bytes     int64  `json:"bytes"`
	Lines     int64  `json:"lines"`
	Events    int    `json:"events"` // of the items
	Replayed  uint64 `json:"replayed"`
	Digest    string `json:"digest"` // of the rebuilt store, and of the live one
}

// file is the params of an item.
type file struct {
	Path string `json:"path"`
}

// sum is the result of an item.
type sum struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Lines  int64  `json:"lines"`
}

// demo is a demo that runs, on an engine in this process or on nodes.
type demo struct {
	Options
	paths  []string
	data   *scratch
	eng    *embedded.Engine // nil: nodes
	nodes  []*node          // none: eng
	client *streamwright.Client
	worker *workers.Worker
	conns  [2]*nats.Conn // of the client and of the worker
	ended  atomic.Int64  // items that have ended
	gate   chan struct{} // lets a third of the items be submitted
}

// Run runs the demo. Its error says what was not as it should be.
func Run(ctx context.Context, o Options) (err error) {
	if o.Report == nil {
		o.Report = new(Report)
	}
	most := maxFiles
	if o.Cluster {
		most = maxClusterFiles
	}
	paths, more, err := files(o.Dir, most)
	if err != nil {
		return fmt.Errorf("read %s: %w: name a folder that is there", o.Dir, err)
	}
	if len(paths) == 0 {
		return fmt.Errorf("there is no readable file under %s: name a folder that has some", o.Dir)
	}
	d := &demo{Options: o, paths: paths}
	defer func() { err = errors.Join(err, d.stop()) }()
	if d.data, err = newScratch(o.Program); err != nil {
		return err
	}
	start := d.startEngine
	if o.Cluster {
		start = d.startNodes
	}
	if err := start(ctx); err != nil {
		return fmt.Errorf("%w%s", err, d.lastWords())
	}
	workers.Handle(d.worker, workType, checksum)
	if err := d.worker.Start(ctx); err != nil {
		return err
	}
	first := ""
	if more {
		first = fmt.Sprintf(" (the first %d)", most)
	}
	fmt.Fprintf(o.Out, "%s under %s, one work item each%s\n", events.Count(len(paths), "file"), o.Dir, first)
	return d.run(ctx)
}

// files lists regular files below dir, at most so many, without version control's own.
func files(dir string, most int) (paths []string, more bool, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && path == dir:
			return err
		case err != nil:
			return nil // what can't be read is no input
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		case len(paths) == most:
			more = true
			return fs.SkipAll
		}
		paths = append(paths, path)
		return nil
	})
	return paths, more, err
}

// startEngine starts an engine in this process, which no other can reach.
func (d *demo) startEngine(ctx context.Context) (err error) {
	d.eng, err = embedded.Start(ctx, embedded.Options{Dir: d.data.dir, NATSListen: config.Off, HTTP: config.Off, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return d.connect(func() (*nats.Conn, error) { return d.eng.Connect() })
}

// connect makes the client and the worker, each with a connection of its own.
func (d *demo) connect(dial func() (*nats.Conn, error)) (err error) {
	for i := range d.conns {
		if d.conns[i], err = dial(); err != nil {
			return err
		}
	}
	if d.client, err = streamwright.New(d.conns[0], streamwright.WithPatience(nodeWithin)); err != nil {
		return err
	}
	d.worker, err = workers.New(d.conns[1], workers.Config{ID: "demo", Concurrency: slots, Logger: slog.New(slog.DiscardHandler)})
	return err
}

// stop ends the worker, the client, and the engine or the nodes, and removes the folder.
// Nothing that nodes hold is needed then, so they are killed.
func (d *demo) stop() (err error) {
	within := 30 * time.Second
	if d.Cluster {
		within = 2 * time.Second // without an engine the worker can't say good-bye
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if d.worker != nil {
		if err = d.worker.Stop(ctx); d.Cluster {
			err = nil
		}
	}
	if d.client != nil {
		d.client.Close()
	}
	for _, nc := range d.conns {
		if nc != nil {
			nc.Close()
		}
	}
	if d.eng != nil {
		err = errors.Join(err, d.eng.Stop(ctx))
	}
	for _, n := range d.nodes {
		n.kill()
	}
	return errors.Join(err, d.data.remove())
}

// checksum is the handler.
func checksum(ctx context.Context, it *workers.Item[file]) (any, error) {
	f, err := os.Open(it.Params.Path)
	if err != nil {
		return nil, workers.Permanent(err)
	}
	defer f.Close()
	h, lines := sha256.New(), lineCounter(0)
	n, err := io.Copy(io.MultiWriter(h, &lines), f)
	if err != nil || ctx.Err() != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return sum{hex.EncodeToString(h.Sum(nil)), n, int64(lines)}, nil
}

// lineCounter counts the lines that are written to it.
type lineCounter int64

func (c *lineCounter) Write(p []byte) (int, error) {
	*c += lineCounter(bytes.Count(p, []byte{'\n'}))
	return len(p), nil
}
