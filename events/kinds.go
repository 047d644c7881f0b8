package events

import "fmt"

// Kind says what has happened. Its number is for this process only:
// the log has its name.
type Kind uint8

// The event kinds. To add one, see "Add a kind" in CONTRIBUTING.md.
const (
	KindNone Kind = iota
	KindCreated
	KindMerged
	KindQueued
	KindClaimed
	KindRunning
	KindCompleted
	KindFailed
	KindDead
	KindCancelled
	KindSpawned
	KindWaiting
	KindReleased
	KindSnoozed
	KindProgressed
	KindCheckpointed
	KindRescheduled
	KindReplayed
	KindParked
	KindSignalled
	KindTokenGiven
	KindReminded
	KindRejected
	KindOwned
	KindSnapshot
	KindTypeConfigured
	KindPaused
	KindResumed
	KindCircuitOpened
	KindCircuitHalfOpened
	KindCircuitClosed
	KindScheduleSet
	KindScheduleRemoved
	KindScheduleFired
	KindCarried
	KindPruned
	KindCauseNoted
	KindRejectedPurged
	KindDrainSet
	KindDrainEnded
	KindTypeForgotten
	KindFormatRaised
	KindNamespaceSet
	KindNamespaceRemoved
	NumKinds = iota
)

// Scope says what the events of a kind are about, and so which of their fields are set.
type Scope uint8

// The scopes.
const (
	ScopeItem       Scope = iota + 1 // an item: ID and Type
	ScopeSubmission                  // one that became no item
	ScopePartition                   // the log as a whole
	ScopeType                        // a type: Type
	ScopeCircuit                     // the circuit of a type or of a worker: Type or Worker
	ScopeWorker                      // a worker: Worker
	ScopeSchedule                    // a schedule: Type, and its name in the payload
	ScopeCause                       // a cause of deaths
	ScopeNamespace                   // a namespace: its name in the payload, and no Type
)

// kinds has the name, the scope and the payload of each kind. The bounds of a
// payload are in its check method; what it does to the state is in core's folds.
var kinds = [NumKinds]kindRow{
	KindCreated:           row[Created]("created", ScopeItem),
	KindMerged:            row[Merged]("merged", ScopeItem),
	KindQueued:            row[Queued]("queued", ScopeItem),
	KindClaimed:           row[Claimed]("claimed", ScopeItem),
	KindRunning:           row[Running]("running", ScopeItem),
	KindCompleted:         row[Completed]("completed", ScopeItem),
	KindFailed:            row[Failed]("failed", ScopeItem),
	KindDead:              row[Dead]("dead", ScopeItem),
	KindCancelled:         row[Cancelled]("cancelled", ScopeItem),
	KindSpawned:           row[Spawned]("spawned", ScopeItem),
	KindWaiting:           row[Waiting]("waiting", ScopeItem),
	KindReleased:          row[Released]("released", ScopeItem),
	KindSnoozed:           row[Snoozed]("snoozed", ScopeItem),
	KindProgressed:        row[Progressed]("progressed", ScopeItem),
	KindCheckpointed:      row[Checkpointed]("checkpointed", ScopeItem),
	KindRescheduled:       row[Rescheduled]("rescheduled", ScopeItem),
	KindReplayed:          row[Replayed]("replayed", ScopeItem),
	KindParked:            row[Parked]("parked", ScopeItem),
	KindSignalled:         row[Signalled]("signalled", ScopeItem),
	KindTokenGiven:        row[TokenGiven]("token_given", ScopeItem),
	KindReminded:          row[Reminded]("reminded", ScopeItem),
	KindRejected:          row[Rejected]("rejected", ScopeSubmission),
	KindOwned:             row[Owned]("owned", ScopePartition),
	KindSnapshot:          row[Snapshot]("snapshot", ScopePartition),
	KindTypeConfigured:    row[TypeConfigured]("type_configured", ScopeType),
	KindPaused:            row[Paused]("paused", ScopeType),
	KindResumed:           row[Resumed]("resumed", ScopeType),
	KindCircuitOpened:     row[CircuitOpened]("circuit_opened", ScopeCircuit),
	KindCircuitHalfOpened: row[CircuitHalfOpened]("circuit_half_opened", ScopeCircuit),
	KindCircuitClosed:     row[CircuitClosed]("circuit_closed", ScopeCircuit),
	KindScheduleSet:       row[ScheduleSet]("schedule_set", ScopeSchedule),
	KindScheduleRemoved:   row[ScheduleRemoved]("schedule_removed", ScopeSchedule),
	KindScheduleFired:     row[ScheduleFired]("schedule_fired", ScopeSchedule),
	KindCarried:           row[Carried]("carried", ScopeItem),
	KindPruned:            row[Pruned]("pruned", ScopeItem),
	KindCauseNoted:        row[CauseNoted]("cause_noted", ScopeCause),
	KindRejectedPurged:    row[RejectedPurged]("rejected_purged", ScopeSubmission),
	KindDrainSet:          row[DrainSet]("drain_set", ScopeWorker),
	KindDrainEnded:        row[DrainEnded]("drain_ended", ScopeWorker),
	KindTypeForgotten:     row[TypeForgotten]("type_forgotten", ScopeType),
	KindFormatRaised:      row[FormatRaised]("format_raised", ScopePartition),
	KindNamespaceSet:      row[NamespaceSet]("namespace_set", ScopeNamespace),
	KindNamespaceRemoved:  row[NamespaceRemoved]("namespace_removed", ScopeNamespace),
}

// acts are the kinds of events that somebody asks for: submitters, and those who operate the
// engine. Their events say who, in By, where a request led to them.
var acts = [NumKinds]bool{
	KindCreated: true, KindCancelled: true, KindRescheduled: true, KindReplayed: true, KindPruned: true, KindRejectedPurged: true,
	KindTypeConfigured: true, KindTypeForgotten: true, KindPaused: true, KindResumed: true, KindCircuitClosed: true,
	KindScheduleSet: true, KindScheduleRemoved: true, KindScheduleFired: true, KindDrainSet: true, KindDrainEnded: true,
	KindNamespaceSet: true, KindNamespaceRemoved: true, KindSignalled: true,
}

// Act reports whether events of the kind say who asked for them.
func (k Kind) Act() bool { return k < NumKinds && acts[k] }

type kindRow struct {
	name  string
	scope Scope
	body  func() Body // an empty payload
}

func row[T any, P interface {
	*T
	Body
}](name string, scope Scope) kindRow {
	return kindRow{name, scope, func() Body { return P(new(T)) }}
}

var kindsByName = func() map[string]Kind {
	m := make(map[string]Kind, NumKinds)
	for k, r := range kinds {
		if r.name != "" {
			m[r.name] = Kind(k)
		}
	}
	return m
}()

func (k Kind) String() string {
	if k < NumKinds {
		return kinds[k].name
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Scope returns what events of the kind are about, 0 for an unknown kind.
func (k Kind) Scope() Scope {
	if k < NumKinds {
		return kinds[k].scope
	}
	return 0
}

// newBody returns an empty payload for k, or nil for an unknown kind.
func newBody(k Kind) Body {
	if k < NumKinds && kinds[k].body != nil {
		return kinds[k].body()
	}
	return nil
}

// ParseKind reads a kind's name.
func ParseKind(s string) (Kind, error) {
	if k, ok := kindsByName[s]; ok {
		return k, nil
	}
	return 0, fmt.Errorf("%q is no event kind: see docs/reference/EVENTS.md for the list", Clip(s, 64))
}

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(b []byte) error {
	v, err := ParseKind(string(b))
	*k = v
	return err
}
