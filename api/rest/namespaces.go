package rest

import (
	"net/http"
	"strings"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
)

// namespacePath begins the paths of what is in a namespace: /ns/acme/api/v1/work.
const namespacePath = "/ns/"

// inNamespace answers a request for what is in a namespace, by the handler of that namespace,
// for which the path is one of its own. It reports whether the request is for such a thing.
func (s *Server) inNamespace(w http.ResponseWriter, r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.Path, namespacePath)
	if !ok || s.cfg.Namespaces == nil && s.cfg.Only == "" {
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
		h, err := s.namespace(r, ns)
		if err != nil {
			writeProblem(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})).ServeHTTP(w, r)
	return true
}

// namespace returns what answers for a namespace.
func (s *Server) namespace(r *http.Request, ns events.Namespace) (http.Handler, error) {
	if s.cfg.Only == "" {
		return s.cfg.Namespaces(r, ns)
	}
	if ns == s.cfg.Only {
		return http.HandlerFunc(s.own), nil
	}
	if _, err := s.cfg.Auth.Authenticate(r); err != nil {
		return nil, err
	}
	return nil, access.NoSuchNamespace(string(ns))
}

// outside answers a request for what would be in the namespace default, where there is another
// one only. It reports whether it has: health and the documentation are the server's.
func (s *Server) outside(w http.ResponseWriter, r *http.Request) bool {
	path := r.URL.Path
	switch {
	case s.cfg.Only == "":
		return false
	case path == "/":
		http.Redirect(w, r, namespacePath+string(s.cfg.Only)+"/", http.StatusFound)
	case path == "/metrics" || strings.HasPrefix(path, apiPath):
		writeProblem(w, access.OnlyNamespace(s.cfg.Only))
	default:
		return false
	}
	return true
}
