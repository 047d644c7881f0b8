package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/cli"
)

// documentFlags say where an item's documents are to be written; empty: they
// are not, - is standard output.
type documentFlags struct{ params, result string }

func (d documentFlags) check() error {
	if d.params == "-" && d.result == "-" {
		return cli.Usagef("--params and --result can't both go to standard output: name a file for one")
	}
	return nil
}

func (d documentFlags) wanted() bool { return d.params != "" || d.result != "" }

// writeDocuments writes what was asked for, resolved.
func (a *app) writeDocuments(ctx context.Context, c *streamwright.Client, it streamwright.WorkItem, d documentFlags) error {
	if d.params != "" {
		if err := a.writeDocument(d.params, func() (io.ReadCloser, error) { return c.OpenParams(ctx, it) }); err != nil {
			return err
		}
	}
	if d.result == "" {
		return nil
	}
	return a.writeDocument(d.result, func() (io.ReadCloser, error) { return c.OpenResult(ctx, it) })
}

// writeDocument copies a document as it is stored, in bounded memory. A file
// gets its name once the document has proved whole.
func (a *app) writeDocument(to string, open func() (io.ReadCloser, error)) (err error) {
	doc, err := open()
	if err != nil {
		return err
	}
	defer doc.Close()
	if to == "-" {
		_, err := io.Copy(a.Out, doc)
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(to), ".document-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", to, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	n, err := io.Copy(f, doc)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", to, err)
	}
	a.Notef("%s: %s", to, bytesText(n))
	return nil
}

// shownDocument is a document for people: its text, or where it is.
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
