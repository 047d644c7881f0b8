package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// scratch is the folder of a demo. A second process, the guard, removes it when the demo
// and its nodes are gone, however they went.
//
// Pipes tell who is there, since the system closes them whatever a process dies of. Each
// node ends when its standard input does, whose other end only the demo has (there). The
// guard's input ends with the last of the demo and its nodes, whose standard output it is.
type scratch struct {
	dir                string
	nodeIn, there, out *os.File
	guard              *exec.Cmd // nil: nobody guards it
}

// newScratch makes the folder, and starts its guard. program is the file of the engine;
// without one there is no guard. remove is to be called whatever the error.
func newScratch(program string) (s *scratch, err error) {
	s = &scratch{}
	if s.dir, err = os.MkdirTemp("", "streamwright-demo-"); err != nil || program == "" {
		return s, err
	}
	if s.nodeIn, s.there, err = os.Pipe(); err != nil {
		return s, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return s, err
	}
	defer in.Close() // the guard has its own
	s.out = out
	guard := exec.Command(program, "demo", "--guard", s.dir)
	guard.Stdin = in
	withoutInterrupts(guard)
	if err := guard.Start(); err != nil {
		return s, fmt.Errorf("start the process that removes %s at the end: %w", s.dir, err)
	}
	s.guard = guard
	return s, nil
}

// remove removes the folder. REQUIRES: the nodes have ended.
func (s *scratch) remove() error {
	if s == nil {
		return nil
	}
	err := os.RemoveAll(s.dir)
	for _, f := range []*os.File{s.nodeIn, s.there, s.out} {
		_ = f.Close() // nothing was written to it; it may be nil
	}
	if s.guard != nil {
		err = errors.Join(err, s.guard.Wait())
	}
	return err
}

// Guard removes dir when in ends: see scratch.
func Guard(in io.Reader, dir string) error {
	_, err := io.Copy(io.Discard, in)
	return errors.Join(err, os.RemoveAll(dir))
}
