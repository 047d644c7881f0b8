package workers

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of the runtime.
const (
	// MaxConcurrency is the highest Concurrency.
	MaxConcurrency = events.MaxCapacity
	// MaxNamespaces bounds the namespaces that one worker serves.
	MaxNamespaces = 100
	// MaxReports bounds the reports in one request.
	MaxReports = 1000
	// MaxReportBytes is the size from which a request takes no further
	// report. One alone may be larger: a result has up to 256 KiB.
	MaxReportBytes = 256 << 10
	// AbandonAfter bounds the time for which Stop waits for a handler whose context it has
	// cancelled.
	AbandonAfter = 10 * time.Second
	// MaxLogText bounds the text of one log record, in bytes.
	MaxLogText = 8 << 10
	// MaxStackBytes bounds the stack in the error of a panic.
	MaxStackBytes = 8 << 10
	// MaxMaxDocument is the highest MaxDocument.
	MaxMaxDocument = 1 << 30
)

const (
	reportSenders   = 2 // report requests outstanding at once
	beatsPerLease   = 3 // heartbeats in a lease, at least: the engine says how often they come
	requestTimeout  = 5 * time.Second
	settleTimeout   = 5 * time.Second // for the last reports, once handlers are done
	farewellTimeout = 2 * time.Second // for unregister
	backoffMin      = 50 * time.Millisecond
	backoffMax      = 2 * time.Second
)

// Config configures a worker. The zero Config is complete.
type Config struct {
	// ID names the worker; it must be unique among live workers. Default: host,
	// process id and random digits.
	ID events.WorkerID
	// Concurrency is the number of handlers that run at once, 1 to MaxConcurrency.
	// Default: GOMAXPROCS, but at least 4.
	Concurrency int
	// Capabilities name what this worker can do beyond its types. Items that need
	// others do not reach it.
	Capabilities []string
	// Names are the names that the engine uses. Default: wire.Default.
	Names wire.Names
	// Namespaces are those that the worker serves, each with the same handlers; see
	// [RawItem.Namespace]. It registers in each, under one ID. Default: the one of Names.
	//
	// Concurrency bounds the handlers of all of them together. A namespace may use all
	// slots while the others have nothing to do; while several have more than that, they
	// share the slots equally. With at least as many slots as namespaces, each then has
	// one. See the package comment, "Several namespaces".
	Namespaces []events.Namespace
	// DrainTimeout is the time for which Stop lets handlers finish. Default 30 s.
	DrainTimeout time.Duration
	// Logger gets what the operator should know. Default: slog.Default().
	Logger *slog.Logger
	// Settled, if not nil, is called once for each handler that has returned, when it is
	// known what became of its outcome: with the engine's answer, or when that is no
	// longer awaited. Calls come one at a time; they must be short, and must not use the worker.
	Settled func(Settled)
	// Version and Host are shown to operators. Host defaults to the machine's
	// name.
	Version string
	Host    string
	// Checks are the host's own checks of its health, by name: at most
	// MaxChecks, of names up to wire.MaxCheckName bytes. They run before each
	// heartbeat and for each probe, all at once; while any fails the worker is
	// unhealthy: it takes no new work, and what runs goes on. See [Check];
	// [MemoryBelow], [CPUBelow], [ConnectionsBelow] and [ThreadsBelow] make some.
	Checks map[string]Check
	// CheckTimeout bounds the duration of the checks, up to MaxCheckTimeout; one
	// that takes longer counts as failing. Default 2 s.
	CheckTimeout time.Duration
	// Probe has the worker answer the engine's probes: so one that hangs, or can't
	// be reached, is found out while its heartbeats go on. It costs a message and a
	// request a minute.
	Probe bool
	// ChildrenOnly has the heartbeats tell the memory and CPU of the handlers' child
	// processes alone: for a worker in a process that does much else. See
	// [RawItem.Measure].
	ChildrenOnly bool
	// MaxDocument bounds the params and the result of one item, in bytes, up to
	// MaxMaxDocument. Default blobs.DefaultMaxBytes. What is larger than an event
	// takes goes through the object store, and is in memory while its handler
	// runs: so Concurrency times the two bounds what documents take, and a child
	// process's output up to three times as much.
	MaxDocument int64
}

// Settled is what became of the outcome of a run.
type Settled struct {
	ID        events.ID
	Namespace events.Namespace
	Attempt   events.Attempt
	Event     string           // the outcome: a wire.ReportComplete or the like
	Error     string           // of a wire.ReportFail
	State     events.ItemState // the item's, as the engine answered; StateNone: it did not say
	Err       error            // why the outcome is not recorded; nil: it is
}

// WithDefaults returns c with every unset field filled in.
func (c Config) WithDefaults() Config {
	if c.Host == "" {
		c.Host, _ = os.Hostname()
	}
	if c.ID == "" {
		c.ID = freshID(c.Host)
	}
	if c.Concurrency == 0 {
		c.Concurrency = min(max(runtime.GOMAXPROCS(0), 4), MaxConcurrency)
	}
	if c.Names == (wire.Names{}) {
		c.Names = wire.Default
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.CheckTimeout == 0 {
		c.CheckTimeout = DefaultCheckTimeout
	}
	if c.MaxDocument == 0 {
		c.MaxDocument = blobs.DefaultMaxBytes
	}
	return c
}

// Validate reports every field that is out of bounds, joined. It expects the
// defaults to be filled in.
func (c Config) Validate() error {
	var errs []error
	if _, err := events.ParseWorkerID(string(c.ID)); err != nil {
		errs = append(errs, fmt.Errorf("worker config: ID: %w", err))
	}
	if c.Concurrency < 1 || c.Concurrency > MaxConcurrency {
		errs = append(errs, fmt.Errorf("worker config: Concurrency is %d: it must be 1 to %d", c.Concurrency, MaxConcurrency))
	}
	if c.DrainTimeout < 0 {
		errs = append(errs, fmt.Errorf("worker config: DrainTimeout is %s: it must not be negative", c.DrainTimeout))
	}
	if c.MaxDocument < events.MaxResultBytes || c.MaxDocument > MaxMaxDocument {
		errs = append(errs, fmt.Errorf("worker config: MaxDocument is %d: it must be %d to %d", c.MaxDocument, events.MaxResultBytes, MaxMaxDocument))
	}
	errs = append(errs, c.validateChecks()...)
	errs = append(errs, c.validateNamespaces()...)
	for _, capability := range c.Capabilities {
		if err := wire.CheckCapability(capability); err != nil {
			errs = append(errs, fmt.Errorf("worker config: Capabilities: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (c Config) validateNamespaces() (errs []error) {
	for i, ns := range c.Namespaces {
		if _, err := events.ParseNamespace(string(ns)); err != nil {
			errs = append(errs, fmt.Errorf("worker config: Namespaces: %w", err))
		}
		if slices.Contains(c.Namespaces[:i], ns) {
			errs = append(errs, fmt.Errorf("worker config: Namespaces has %q twice", ns))
		}
	}
	if len(c.Namespaces) > MaxNamespaces {
		errs = append(errs, fmt.Errorf("worker config: there are %d Namespaces: at most %d", len(c.Namespaces), MaxNamespaces))
	}
	return errs
}

// freshID makes a worker id that no other worker has.
func freshID(host string) events.WorkerID {
	clean := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return '-'
	}, host), "-")
	if clean == "" {
		clean = "worker"
	}
	if len(clean) > 64 {
		clean = strings.Trim(clean[:64], "-")
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return events.WorkerID(clean + "-" + strconv.Itoa(os.Getpid()) + "-" + hex.EncodeToString(b[:]))
}
