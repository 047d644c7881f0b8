package main

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"strings"

	"github.com/streamwright/streamwright/internal/measure"
)

// A System is one of the queues that are compared, at one durability.
type System struct {
	ID         string // for --only
	Product    string // systems of one product have one colour
	Name       string
	Durability Durability
	Versions   []string
	Settings   []string // what differs from the defaults, and what was left at them on purpose

	// prepare builds or finds the program of the server, once for a product.
	prepare func(context.Context, *Tools) (program string, err error)
	// start starts the server in the host's folder, to listen on a loopback address.
	start func(ctx context.Context, h *Host, addr string) error
	// ready makes what clients need, and fails until the server, which listens, answers.
	ready func(ctx context.Context, addr string) error
	// dial connects a client, which runs in a process of its own, to that address. At
	// most slots handlers run at once.
	dial func(ctx context.Context, addr string, slots int) (measure.Queue, error)
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

// of returns what holds at a durability.
func (d Durability) of(fsync, interval string) string {
	if d == Fsync {
		return fsync
	}
	return interval
}

// systems are all that are compared, in the order of the tables.
func systems() (all []System) {
	for _, d := range []Durability{Fsync, Interval} {
		all = append(all, streamwrightSystem(d), riverSystem(d), asynqSystem(d), jetstreamSystem(d))
	}
	return all
}

// systemsNamed returns those that names means, by id or product; all for none.
func systemsNamed(names string) ([]System, error) {
	return pick(names, systems(), func(s System, name string) bool { return s.ID == name || strings.EqualFold(s.Product, name) })
}

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

// version names a module that this program was built with.
func version(name, module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, d := range info.Deps {
		if d.Path == module {
			return name + " " + strings.TrimPrefix(d.Version, "v")
		}
	}
	return name
}

// listens fails unless somebody listens on an address: clients wait long for a server that
// is not there yet.
func listens(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}
