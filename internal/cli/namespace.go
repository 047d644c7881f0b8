package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/streamwright/streamwright"
)

// NamespaceEnv is the variable of the environment that --namespace overrides.
const NamespaceEnv = "WORK_NAMESPACE"

// Namespace returns the namespace that a flag's value names, else the environment, else the
// default one.
func Namespace(flag string, getenv func(string) string) (streamwright.Namespace, error) {
	all, err := Namespaces(flag, getenv)
	switch {
	case err != nil:
		return "", err
	case len(all) > 1:
		return "", Usagef("%s is %q: give one namespace", namespaceFrom(flag), strings.Join(words(flag, getenv), ","))
	}
	return all[0], nil
}

// Namespaces is Namespace for what works with several at once, which have commas between
// them.
func Namespaces(flag string, getenv func(string) string) (all []streamwright.Namespace, err error) {
	for _, word := range words(flag, getenv) {
		ns, err := streamwright.ParseNamespace(word)
		if err != nil {
			return nil, Usagef("invalid %s: %v", namespaceFrom(flag), err)
		}
		if slices.Contains(all, ns) {
			return nil, Usagef("invalid %s: it has %s twice", namespaceFrom(flag), ns)
		}
		all = append(all, ns)
	}
	return all, nil
}

func words(flag string, getenv func(string) string) []string {
	words := strings.Split(cmp.Or(flag, getenv(NamespaceEnv), string(streamwright.DefaultNamespace)), ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return words
}

// namespaceFrom says where the namespaces are written.
func namespaceFrom(flag string) string {
	if flag == "" {
		return NamespaceEnv
	}
	return "--namespace"
}
