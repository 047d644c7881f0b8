// Package demo is `engine demo`: the whole engine on real input. One work item
// for each file of a folder, real workers that hash and count it, and then the
// proofs: the results against a second computation, the log against itself,
// the store against a rebuild from the log.
package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/schollz/progressbar/v3"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// MaxFiles bounds how many files a demo looks at.
const MaxFiles = 20_000

const workType = "checksum"

// Options say what to run on.
type Options struct {
	Dir      string
	Out      io.Writer
	Progress io.Writer // where the progress bar is drawn; nil: nowhere
	Slots    int       // files hashed at once; default 8
	Report   *Report   // is filled in, unless it is nil
	// Program is the file of the engine: of the nodes, and of the process that removes what a
	// demo leaves that is killed. Only RunCluster can't do without.
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

// Run runs the demo. Its error says what was not as it should be.
func Run(ctx context.Context, o Options) (err error) {
	if o.Slots == 0 {
		o.Slots = 8
	}
	if o.Report == nil {
		o.Report = new(Report)
	}
	paths, more, err := files(o.Dir)
	if err != nil {
		return fmt.Errorf("read %s: %w: name a folder that is there", o.Dir, err)
	}
	if len(paths) == 0 {
		return fmt.Errorf("there is no readable file under %s: name a folder that has some", o.Dir)
	}
	data, err := newScratch(o.Program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.remove()) }()
	d := &demo{Options: o, paths: paths}
	if err := d.start(ctx, data.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	fmt.Fprintf(o.Out, "%s under %s, one work item each", events.Count(len(paths), "file"), o.Dir)
	if more {
		fmt.Fprintf(o.Out, " (the first %d)", MaxFiles)
	}
	fmt.Fprintln(o.Out)
	return d.run(ctx)
}

// files lists regular files below dir, without version control's own.
func files(dir string) (paths []string, more bool, err error) {
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
		case len(paths) == MaxFiles:
			more = true
			return fs.SkipAll
		}
		paths = append(paths, path)
		return nil
	})
	return paths, more, err
}

type demo struct {
	Options
	paths  []string
	eng    *embedded.Engine
	client *streamwright.Client
	worker *workers.Worker
	conns  [2]*nats.Conn // of the client and of the worker
}

func (d *demo) start(ctx context.Context, data string) error {
	quiet := slog.New(slog.DiscardHandler)
	var err error
	d.eng, err = embedded.Start(ctx, embedded.Options{Dir: data, NATSListen: config.Off, HTTP: config.Off, Logger: quiet})
	if err != nil {
		return err
	}
	if err := d.connect(quiet); err != nil {
		return errors.Join(err, d.stop())
	}
	workers.Handle(d.worker, workType, checksum)
	if err := d.worker.Start(ctx); err != nil {
		return errors.Join(err, d.stop())
	}
	return nil
}

// connect makes the client and the worker, each with a connection of its own.
func (d *demo) connect(log *slog.Logger) (err error) {
	for i := range d.conns {
		if d.conns[i], err = d.eng.Connect(); err != nil {
			return err
		}
	}
	if d.client, err = streamwright.New(d.conns[0]); err != nil {
		return err
	}
	d.worker, err = workers.New(d.conns[1], workers.Config{ID: "demo", Concurrency: d.Slots, Logger: log})
	return err
}

func (d *demo) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var err error
	if d.worker != nil {
		err = d.worker.Stop(ctx)
	}
	if d.client != nil {
		d.client.Close()
	}
	for _, nc := range d.conns {
		if nc != nil {
			nc.Close()
		}
	}
	return errors.Join(err, d.eng.Stop(ctx))
}

// checksum is the handler.
func checksum(ctx context.Context, it *workers.Item[file]) (any, error) {
	f, err := os.Open(it.Params.Path)
	if err != nil {
		return nil, workers.Permanent(err)
	}
	defer f.Close()
	h, lines := sha256.New(), &lineCounter{}
	n, err := io.Copy(io.MultiWriter(h, lines), &untilDone{ctx, f})
	if err != nil {
		return nil, err
	}
	return sum{SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: n, Lines: lines.n}, nil
}

type lineCounter struct{ n int64 }

func (c *lineCounter) Write(b []byte) (int, error) {
	for _, x := range b {
		if x == '\n' {
			c.n++
		}
	}
	return len(b), nil
}

// untilDone reads until the context ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(b []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

func (d *demo) run(ctx context.Context) error {
	start := time.Now()
	ids, err := d.submit(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "submitted in %s: every item is in the event log, on disk\n", since(start))
	if err := d.watch(ctx, len(ids)); err != nil {
		return err
	}
	took := time.Since(start)
	d.Report.Files, d.Report.ElapsedMS = len(ids), took.Milliseconds()
	fmt.Fprintf(d.Out, "done in %s, %.0f items/s\n\nproofs\n", since(start), float64(len(ids))/took.Seconds())
	for _, p := range []func(context.Context, []string) error{d.proveResults, d.proveOnce, d.proveRebuild} {
		if err := p(ctx, ids); err != nil {
			return err
		}
	}
	return nil
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

// submit submits one item for each file, and then all of them again: the
// second time each is recognised by its idempotency key.
func (d *demo) submit(ctx context.Context) ([]string, error) {
	items := make([]streamwright.Item, len(d.paths))
	for i, p := range d.paths {
		items[i] = streamwright.Item{Type: workType, Params: file{Path: p}, IdempotencyKey: p, Source: "demo"}
	}
	ids := make([]string, len(items))
	for round := range 2 {
		answers, err := d.client.SubmitMany(ctx, items)
		if err != nil {
			return nil, err
		}
		for i, a := range answers {
			switch {
			case a.Error != nil:
				return nil, fmt.Errorf("submit %s: %w", d.paths[i], a.Error.Err())
			case round == 1 && a.ID != ids[i]:
				return nil, fmt.Errorf("%s was submitted twice with one idempotency key and became two items", d.paths[i])
			}
			ids[i] = a.ID
		}
	}
	return ids, nil
}

// progress returns functions that draw the progress bar and end it.
func (d *demo) progress() (show func(int), end func()) {
	out, n := d.Progress, len(d.paths)
	if out == nil {
		out = io.Discard
	}
	bar := progressbar.NewOptions(n, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription("hashing"), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
	return func(done int) { _ = bar.Set(min(done, n)) }, func() { _ = bar.Finish() }
}

// watch draws progress until all items are terminal.
func (d *demo) watch(ctx context.Context, n int) error {
	show, end := d.progress()
	defer end()
	for {
		s, err := d.client.Engine().Stats(ctx)
		if err != nil {
			return err
		}
		done := 0
		for _, t := range s.Types {
			done += int(t.States["completed"] + t.States["dead"] + t.States["cancelled"])
		}
		show(done)
		if done >= n {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// proveResults computes every result a second time, another way.
func (d *demo) proveResults(ctx context.Context, ids []string) error {
	var bytes, lines int64
	changed := 0
	for i, id := range ids {
		it, err := d.client.Get(ctx, id)
		if err != nil {
			return err
		}
		var got sum
		if it.Error == nil {
			if err := json.Unmarshal(it.Result, &got); err != nil {
				return fmt.Errorf("result of %s: %w", d.paths[i], err)
			}
		}
		data, err := os.ReadFile(d.paths[i])
		switch {
		case err != nil && it.Error != nil:
			changed++ // it could not be read then, nor can it now
			continue
		case err != nil:
			changed++
			continue
		}
		want := sha256.Sum256(data)
		if got.SHA256 != hex.EncodeToString(want[:]) {
			if info, err := os.Stat(d.paths[i]); err == nil && info.ModTime().After(it.CreatedAt) {
				changed++
				continue
			}
			return fmt.Errorf("%s: the worker found %s, a second computation %x", d.paths[i], got.SHA256, want)
		}
		bytes, lines = bytes+got.Bytes, lines+got.Lines
	}
	d.Report.Equal, d.Report.Bytes, d.Report.Lines = len(ids)-changed, bytes, lines
	fmt.Fprintf(d.Out, "  results    %d of %d equal to a second computation (%s, %s)", len(ids)-changed, len(ids), events.Count(bytes, "byte"), events.Count(lines, "line"))
	if changed > 0 {
		fmt.Fprintf(d.Out, "; %d changed or could not be read meanwhile", changed)
	}
	fmt.Fprintln(d.Out)
	return nil
}

// proveOnce reads every item's history: one completion, behind one claim.
func (d *demo) proveOnce(ctx context.Context, ids []string) error {
	seen := 0
	for _, id := range ids {
		h, err := d.client.History(ctx, id)
		if err != nil {
			return err
		}
		ends := 0
		for _, ev := range h {
			seen++
			if k := ev.Kind.String(); k == "completed" || k == "dead" {
				ends++
			}
		}
		if ends != 1 {
			return fmt.Errorf("item %s ended %s", id, events.Count(ends, "time"))
		}
	}
	d.Report.Events = seen
	fmt.Fprintf(d.Out, "  once       %s ended exactly once, in %s; each was submitted twice\n", events.Count(len(ids), "item"), events.Count(seen, "event"))
	return nil
}

// proveRebuild replays the log into a second store and compares.
func (d *demo) proveRebuild(ctx context.Context, _ []string) error {
	res, err := d.client.Engine().Verify(ctx, nil)
	if err != nil {
		return err
	}
	if !res.Equal {
		return fmt.Errorf("the store is not what the log says: %v", res.Diff)
	}
	d.Report.Replayed, d.Report.Digest = res.Events, res.Digest
	fmt.Fprintf(d.Out, "  rebuild    %s replayed in %s give the live store, byte for byte\n             digest %s\n", events.Count(int64(res.Events), "event"), time.Duration(res.ElapsedMS)*time.Millisecond, res.Digest)
	return nil
}
