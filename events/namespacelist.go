package events

import (
	"encoding/json"
	"slices"
	"strings"
)

// NamespaceList is a set of namespaces: their names, sorted, with commas between them, so that
// two that mean the same are equal. As JSON it is an array of names.
type NamespaceList string

// ListNamespaces returns the list of some namespaces. It does not check their names.
func ListNamespaces(names ...Namespace) NamespaceList {
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = string(n)
	}
	slices.Sort(words)
	return NamespaceList(strings.Join(slices.Compact(words), ","))
}

// All returns the names, sorted.
func (l NamespaceList) All() []Namespace {
	names := []Namespace{}
	for n := range strings.SplitSeq(string(l), ",") {
		if l != "" {
			names = append(names, Namespace(n))
		}
	}
	return names
}

// Has reports whether a namespace is in the list.
func (l NamespaceList) Has(ns Namespace) bool { return slices.Contains(l.All(), ns) }

// MarshalJSON implements json.Marshaler.
func (l NamespaceList) MarshalJSON() ([]byte, error) { return json.Marshal(l.All()) }

// UnmarshalJSON implements json.Unmarshaler.
func (l *NamespaceList) UnmarshalJSON(data []byte) error {
	var names []Namespace
	if err := json.Unmarshal(data, &names); err != nil {
		return err
	}
	for _, n := range names {
		if _, err := ParseNamespace(string(n)); err != nil { // a comma would make it two
			return Refuse(CodeBadRequest, "%v", err)
		}
	}
	*l = ListNamespaces(names...)
	return nil
}

// ParseNamespaceList reads names with commas between them; nothing is the empty list.
func ParseNamespaceList(text string) (NamespaceList, error) {
	var names []Namespace
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		n, err := ParseNamespace(word)
		if err != nil {
			return "", err
		}
		names = append(names, n)
	}
	return ListNamespaces(names...), nil
}
