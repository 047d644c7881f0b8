package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/cli"
)

// documentFlags name the files to write an item's documents to, - for standard
// output.
type documentFlags struct{ params, result string }

func (d documentFlags) check() error {
	if d.params == "-" && d.result == "-" {
		return cli.Usagef("--params and --result can't both go to standard output: name a file for one")
	}
	return nil
}

func (d documentFlags) wanted() bool { return d.params != "" || d.result != "" }

// write writes the documents that were asked for, resolved.
func (d documentFlags) write(ctx context.Context, a *app, c *streamwright.Client, it streamwright.WorkItem) error {
	for _, doc := range []struct {
		to   string
		open func(context.Context, streamwright.WorkItem) (io.ReadCloser, error)
	}{{d.params, c.OpenParams}, {d.result, c.OpenResult}} {
		if doc.to == "" {
			continue
		}
		r, err := doc.open(ctx, it)
		if err != nil {
			return err
		}
		err = writeDocument(a, doc.to, r)
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// writeDocument copies a document as it is stored, in bounded memory. A file
// gets its name only once it is whole.
func writeDocument(a *app, to string, doc io.Reader) (err error) {
	if to == "-" {
		_, err := io.Copy(a.Out, doc)
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(to), ".document-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", to, err)
	}
	n, err := io.Copy(f, doc)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", to, err)
	}
	a.Notef("%s: %s", to, bytesText(n))
	return nil
}

// shownDocument returns a document for people: its text, or where it is.
func shownDocument(doc json.RawMessage, flag string) string {
	if ref, ok := streamwright.Stored(doc); ok {
		return fmt.Sprintf("%s in the object store (%s FILE writes it)", bytesText(ref.Size), flag)
	}
	return indent(doc)
}

func bytesText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/(1<<10), "KiB"
	for _, next := range []string{"MiB", "GiB"} {
		if f < 1<<10 {
			break
		}
		f, unit = f/(1<<10), next
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}
