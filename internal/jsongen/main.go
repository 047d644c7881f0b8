// Jsongen writes the JSON code of the types that most JSON here is of: for each, how it is
// appended and read, by the json tags of its fields, as encoding/json does. See package
// quickjson, on which that code stands.
//
//	go run ./internal/jsongen
//
// in the root of the repository writes it anew, after a change of such a type. A test
// checks that it is current.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
)

const (
	module  = "github.com/streamwright/streamwright"
	runtime = module + "/events/quickjson"

	output     = "json_gen.go"
	testOutput = "json_gen_test.go"
)

// A target is a package and those of its types that get code.
type target struct {
	path  string // within the module
	types []string
	// body is the interface of those types that are read and written as one; see
	// generator.bodies.
	body string
	// strict is set if what encoding/json says is not the last word on a request, but
	// wire.ReadStrict. Then documents are checked when they are written, too.
	strict bool
}

var targets = []target{
	{
		path: "events", body: "Body",
		types: []string{"Created", "Queued", "Claimed", "Running", "Completed", "Checkpointed", "Replayed", "Carried", "CarriedDocument", "StoredEvent"},
	}, {
		path: "wire", strict: true,
		types: []string{"Submit", "FirstSignal", "Submitted", "Report", "ContinueWith", "Reported", "Assigned", "Error", "Continuation", "WaitFor", "WaitToken", "EndedWait"},
	},
}

func main() {
	for _, t := range targets {
		code, tests, err := t.generate(".")
		if err == nil {
			err = errors.Join(os.WriteFile(filepath.Join(t.path, output), code, 0o644), os.WriteFile(filepath.Join(t.path, testOutput), tests, 0o644))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "jsongen:", err)
			os.Exit(1)
		}
	}
}

// A loader finds out the types of packages, as far as fields and methods go: of other
// modules it knows what stubs has, and bodies of functions do not matter. So it needs
// nothing that the generated code would have to be there for.
type loader struct {
	root string
	fset *token.FileSet
	seen map[string]*types.Package
}

// stubs stand for packages outside of the module.
var stubs = map[string]string{
	"encoding/json": "package json; type RawMessage []byte",
	"time":          "package time; type Time struct{}; func (Time) IsZero() bool; type Duration int64",
}

// Import implements types.Importer.
func (l *loader) Import(path string) (*types.Package, error) {
	if l.seen[path] != nil {
		return l.seen[path], nil
	}
	var files []*ast.File
	parse := func(name string, src any) error {
		f, err := parser.ParseFile(l.fset, name, src, parser.SkipObjectResolution)
		files = append(files, f)
		return err
	}
	var err error
	if in, ours := strings.CutPrefix(path, module+"/"); ours {
		names, _ := filepath.Glob(filepath.Join(l.root, in, "*.go"))
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") && filepath.Base(name) != output {
				err = errors.Join(err, parse(name, nil))
			}
		}
	} else {
		stub := stubs[path]
		if stub == "" {
			stub = "package " + filepath.Base(path)
		}
		err = parse(path, stub)
	}
	conf := types.Config{Importer: l, IgnoreFuncBodies: true, Error: func(error) {}}
	l.seen[path], _ = conf.Check(path, l.fset, files, nil)
	return l.seen[path], err
}
