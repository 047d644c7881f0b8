package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
)

// A System is one of the queues that are compared, at one durability.
type System interface {
	About() About
	// Start starts the servers in the host's folder, to listen on a loopback address,
	// and returns when they answer. The host ends them.
	Start(ctx context.Context, h *Host, addr string) error
	// Dial connects a client, which runs in a process of its own, to that address. At
	// most slots handlers run at once.
	Dial(ctx context.Context, addr string, slots int) (Peer, error)
}

// About describes a system to the reader of the report.
type About struct {
	ID         string // for --only
	Product    string // systems of one product have one colour
	Name       string
	Durability Durability
	Versions   []string
	Settings   []string // what differs from the defaults, and what was left at them on purpose
}

// Durability is what a system has done when it acknowledges a submission.
type Durability string

const (
	// Fsync means on disk before the acknowledgement.
	Fsync Durability = "fsync"
	// Interval means written to the operating system, and on disk within about a
	// second: a crash of the process loses nothing, one of the machine up to that.
	Interval Durability = "interval"
)

// Peer is a connection to a system: it submits and works. Submit, SubmitMany and
// Drained are safe for concurrent use.
type Peer interface {
	// Submit returns when the system has acknowledged one item.
	Submit(ctx context.Context, p Payload) error
	// SubmitMany does the same for up to bulkBatch items, in the way that the
	// system has for many.
	SubmitMany(ctx context.Context, ps []Payload) error
	// Work handles items, slots at a time, until stop is called. It is called once.
	Work(ctx context.Context, handle func(Payload)) (stop func() error, err error)
	// Drained reports whether the system has recorded n items as done, which is all
	// that it was given.
	Drained(ctx context.Context, n int) (bool, error)
	Close() error
}

// Payload is what an item carries, as JSON: 256 bytes.
type Payload struct {
	Seq int    `json:"seq"`
	Pad string `json:"pad"`
}

// payloads returns n payloads, numbered from first.
func payloads(first, n int) []Payload {
	ps := make([]Payload, n)
	for i := range ps {
		ps[i] = payload(first + i)
	}
	return ps
}

func payload(seq int) Payload {
	const size = 256
	empty := len(fmt.Sprintf(`{"seq":%d,"pad":""}`, seq))
	return Payload{seq, filler[:size-empty]}
}

// filler compresses about as well as JSON does, which matters where a system compresses.
var filler = strings.Repeat(`customer order invoice 4711 street Hamburg 20095 item 0.95 EUR; `, 4)

// systems are all that are compared, in the order of the tables.
func systems() []System {
	return []System{
		streamwrightSystem{Fsync}, riverSystem{Fsync}, asynqSystem{Fsync}, jetstreamSystem{Fsync},
		streamwrightSystem{Interval}, riverSystem{Interval}, asynqSystem{Interval}, jetstreamSystem{Interval},
	}
}

// isSystem reports whether a system is meant by its id or its product.
func isSystem(s System, name string) bool {
	return s.About().ID == name || strings.EqualFold(s.About().Product, name)
}

func isLoad(l Load, name string) bool { return l.Name() == name }

// pick returns those that are meant by names, which commas separate; all for none.
func pick[T any](names string, all []T, is func(T, string) bool) (out []T, err error) {
	if names == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		n := len(out)
		for _, one := range all {
			if is(one, name) {
				out = append(out, one)
			}
		}
		if len(out) == n {
			return nil, fmt.Errorf("there is no %q: --help has the names", name)
		}
	}
	return out, nil
}

// version is the version of a module that this program was built with.
func version(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return strings.TrimPrefix(d.Version, "v")
		}
	}
	return "unknown"
}
