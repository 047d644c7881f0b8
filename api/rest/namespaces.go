package rest

import (
	"net/http"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// namespacePath begins the paths of what is in a namespace: /ns/acme/api/v1/work.
const namespacePath = "/ns/"

// inNamespace answers a request for what is in a namespace, by the handler of that namespace,
// for which the path is one of its own. It reports whether the request is for such a thing.
func (s *Server) inNamespace(w http.ResponseWriter, r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.Path, namespacePath)
	if !ok || s.cfg.Namespaces == nil {
		return false
	}
	name, _, inside := strings.Cut(path, "/")
	ns, err := events.ParseNamespace(name)
	if err != nil {
		writeProblem(w, events.Refuse(events.CodeNotFound, "%s", err.Error()))
		return true
	}
	if !inside {
		http.Redirect(w, r, namespacePath+name+"/", http.StatusMovedPermanently)
		return true
	}
	http.StripPrefix(namespacePath+name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, err := s.cfg.Namespaces(r, ns)
		if err != nil {
			writeProblem(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})).ServeHTTP(w, r)
	return true
}
