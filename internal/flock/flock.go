// Package flock keeps a folder to one process by an advisory lock on a file in it.
package flock

import (
	"errors"
	"os"
)

// ErrHeld means that another open file holds the lock, of this process or another.
var ErrHeld = errors.New("locked by another")

// Lock takes the exclusive lock on f without waiting, or returns ErrHeld. The
// system releases it when the process ends, however it ends.
func Lock(f *os.File) error { return lock(f) }

// Close releases the lock and closes f. Closing alone would not do: a process that
// is being started elsewhere in this one holds a copy of f until it runs its own
// program, and the lock lives as long as any copy.
func Close(f *os.File) error { return errors.Join(unlock(f), f.Close()) }
