package events

import "time"

// Bounds of a namespace.
const (
	MaxNamespaces   = 1000    // beside the default one
	MinBound        = 1 << 20 // bytes: the least that MaxLogBytes and MaxDocumentBytes may be set to
	MaxBound        = 1 << 50
	MaxRequestsRate = 1_000_000 // requests a second
	MaxAccepted     = 100       // namespaces that one accepts work from
	MaxWeight       = 100       // of a namespace's share of the processors; the least, and the default, is 1
)

// NamespaceInfo describes a namespace. The default namespace has none: it is there by itself.
type NamespaceInfo struct {
	Name   Namespace       `json:"name"`
	Paused bool            `json:"paused,omitempty"`
	Limits NamespaceLimits `json:"limits,omitzero"`
	Node   string          `json:"node,omitempty"` // the node that should own its log; empty: any
	// Weight is that of its share of a process's processors, while they are all taken: 1 to
	// MaxWeight; 0 stands for 1.
	Weight int `json:"weight,omitempty"`
	// Accept lists the namespaces whose clients may hand work to this one.
	Accept NamespaceList `json:"accept,omitempty"`
	Source string        `json:"source"` // file, api
	// CreatedAt is when it was added. One that is removed and added again has another.
	CreatedAt time.Time `json:"created_at"`
	// Removing says that it is being removed: what it holds is destroyed, and then it is taken
	// off the list. RemovedBy is who asked for that.
	Removing  bool   `json:"removing,omitempty"`
	RemovedBy string `json:"removed_by,omitempty"` // at most 256 bytes
}

// NamespaceLimits bounds what a namespace uses. 0 sets no limit beside the engine's.
type NamespaceLimits struct {
	MaxQueued         int   `json:"max_queued,omitempty"`          // items queued or waiting
	MaxLogBytes       int64 `json:"max_log_bytes,omitempty"`       // of its event stream
	MaxDocumentBytes  int64 `json:"max_document_bytes,omitempty"`  // of its object store of large documents
	RequestsPerSecond int   `json:"requests_per_second,omitempty"` // of all its users together
}

// NamespaceChange changes a namespace. What is nil stays as it is.
type NamespaceChange struct {
	Paused *bool                 `json:"paused,omitempty"`
	Limits NamespaceLimitsChange `json:"limits,omitzero"`
	Node   *string               `json:"node,omitempty"`   // empty: any
	Weight *int                  `json:"weight,omitempty"` // 1 to MaxWeight
	Accept *NamespaceList        `json:"accept,omitempty"` // empty: none
}

// NamespaceLimitsChange changes a namespace's limits. What is nil stays as it is.
type NamespaceLimitsChange struct {
	MaxQueued         *int   `json:"max_queued,omitempty"`          // 0: no limit, for all of these
	MaxLogBytes       *int64 `json:"max_log_bytes,omitempty"`       // from 1 MiB
	MaxDocumentBytes  *int64 `json:"max_document_bytes,omitempty"`  // from 1 MiB
	RequestsPerSecond *int   `json:"requests_per_second,omitempty"` // of all its users together
}

// Apply returns the namespace with the change in it.
func (c NamespaceChange) Apply(n NamespaceInfo) NamespaceInfo {
	put(&n.Paused, c.Paused)
	put(&n.Node, c.Node)
	put(&n.Weight, c.Weight)
	put(&n.Accept, c.Accept)
	put(&n.Limits.MaxQueued, c.Limits.MaxQueued)
	put(&n.Limits.MaxLogBytes, c.Limits.MaxLogBytes)
	put(&n.Limits.MaxDocumentBytes, c.Limits.MaxDocumentBytes)
	put(&n.Limits.RequestsPerSecond, c.Limits.RequestsPerSecond)
	return n
}

func put[T any](at *T, v *T) {
	if v != nil {
		*at = *v
	}
}

// Change returns the change that sets all of a namespace that can be changed.
func (n NamespaceInfo) Change() NamespaceChange {
	return NamespaceChange{Paused: &n.Paused, Node: &n.Node, Weight: &n.Weight, Accept: &n.Accept, Limits: NamespaceLimitsChange{
		MaxQueued: &n.Limits.MaxQueued, MaxLogBytes: &n.Limits.MaxLogBytes, MaxDocumentBytes: &n.Limits.MaxDocumentBytes,
		RequestsPerSecond: &n.Limits.RequestsPerSecond,
	}}
}

// Validate checks all but CreatedAt. Its errors are of type [*Error].
func (n NamespaceInfo) Validate() error {
	if err := CheckOtherNamespace(n.Name); err != nil {
		return err
	}
	switch {
	case n.Source != SourceFile && n.Source != SourceAPI:
		return n.bad("invalid source %q: use %s or %s", Clip(n.Source, 64), SourceFile, SourceAPI)
	case len(n.Node) > MaxNameLen || !plain(n.Node):
		return n.bad("invalid node %q: use the name of a node, of at most %d bytes", Clip(n.Node, 80), MaxNameLen)
	}
	if n.Weight < 0 || n.Weight > MaxWeight {
		return n.bad("weight is %d: it must be 1 to %d", n.Weight, MaxWeight)
	}
	if err := n.checkAccept(); err != nil {
		return err
	}
	l := n.Limits
	for _, of := range []struct {
		name           string
		v, least, most int64
	}{
		{"max_queued", int64(l.MaxQueued), 1, MaxMaxQueued}, {"max_log_bytes", l.MaxLogBytes, MinBound, MaxBound},
		{"max_document_bytes", l.MaxDocumentBytes, MinBound, MaxBound}, {"requests_per_second", int64(l.RequestsPerSecond), 1, MaxRequestsRate},
	} {
		if of.v != 0 && (of.v < of.least || of.v > of.most) {
			return n.bad("%s is %d: it must be %d to %d, or 0 for no limit", of.name, of.v, of.least, of.most)
		}
	}
	return nil
}

// checkAccept checks the namespaces that it accepts work from, which need not exist.
func (n NamespaceInfo) checkAccept() error {
	list := n.Accept.All()
	if len(list) > MaxAccepted {
		return n.bad("it accepts work from %d namespaces: at most %d", len(list), MaxAccepted)
	}
	for _, from := range list {
		if _, err := ParseNamespace(string(from)); err != nil {
			return n.bad("%v", err)
		}
		if from == n.Name {
			return n.bad("it accepts work from itself anyway: leave it out")
		}
	}
	return nil
}

func (n NamespaceInfo) bad(format string, args ...any) error {
	return Refuse(CodeBadRequest, "namespace %s: "+format, append([]any{n.Name}, args...)...)
}

// MayRemove refuses with a CodeSetInFile if engine.toml sets the namespace.
func (n NamespaceInfo) MayRemove() error {
	if n.Source == SourceFile {
		return Refuse(CodeSetInFile, "engine.toml sets the namespace %s: take it out there, restart the engine, and remove it then", n.Name)
	}
	return nil
}

// CheckOtherNamespace refuses the name of a namespace that can't be added or removed: an
// invalid one, and the default one, with a CodeBadRequest.
func CheckOtherNamespace(name Namespace) error {
	if _, err := ParseNamespace(string(name)); err != nil {
		return Refuse(CodeBadRequest, "%v", err)
	}
	if name == DefaultNamespace {
		return Refuse(CodeBadRequest, "the namespace %s holds the list of the others: it is always there, and can't be added, changed or removed", name)
	}
	return nil
}

// NoNamespace refuses a name that is not in the list of namespaces, with CodeNotFound.
func NoNamespace(name Namespace) error {
	return Refuse(CodeNotFound, "there is no namespace %q: check its name", Clip(string(name), 80))
}

// NamespaceSet is the payload of namespace_set: the namespace from here on.
type NamespaceSet struct {
	Namespace NamespaceInfo `json:"namespace"`
}

// NamespaceRemoved is the payload of namespace_removed: what the namespace held has been
// destroyed, and the name is free.
type NamespaceRemoved struct {
	Name Namespace `json:"name"`
	By   string    `json:"by,omitempty"`
}

func (*NamespaceSet) Kind() Kind     { return KindNamespaceSet }
func (*NamespaceRemoved) Kind() Kind { return KindNamespaceRemoved }
