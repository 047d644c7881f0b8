// Package layout is the form of a projector's store: its keys and records, how
// they are read (View), and how they are named in messages. Package projector
// writes by it, package query reads by it.
//
// keys.go lists the whole key space. A change to a key, a record, or to which
// words of an error are indexed needs a new projector.FormatVersion: stores of
// the version before are then made anew from the log.
package layout
