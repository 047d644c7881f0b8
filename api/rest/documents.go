package rest

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
)

// mountDocuments serves an item's params and result, also where the item only has a
// reference to them because they are large.
func (s *Server) mountDocuments() {
	needed := access.RolesOf(access.Read, access.Work)
	for _, d := range []struct {
		name, summary string
		result        bool
	}{
		{"params", "An item's params", false},
		{"result", "An item's result", true},
	} {
		pattern := "GET /api/v1/work/{id}/" + d.name
		s.Mount(pattern, needed, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := s.serveDocument(w, r, d.result); err != nil {
				writeProblem(w, err)
			}
		}))
		s.Describe(pattern, Doc{Summary: d.summary, Description: "The JSON document alone, byte for byte. One that is kept in the object store is fetched from there.", Content: "application/json", Refusals: []int{http.StatusNotFound}})
	}
}

// serveDocument replies with a document of an item; an error means that nothing has
// been written.
func (s *Server) serveDocument(w http.ResponseWriter, r *http.Request, result bool) error {
	ctx, cancel := context.WithTimeout(r.Context(), RequestTime)
	defer cancel()
	id := r.PathValue("id")
	doc, err := s.cfg.Engine.Document(ctx, id, result)
	if err != nil {
		return s.whyEnded(ctx, err)
	}
	if id := IdentityOf(r.Context()); !blobs.IsRef(doc) && !id.Roles.Has(access.RolesOf(access.Read)) {
		return events.Refuse(events.CodeForbidden, "the role work gets documents that are kept in the object store alone: what is small comes with the item")
	}
	repliesJSON(w)
	if s.cfg.Documents == nil || !blobs.IsRef(doc) {
		_, _ = w.Write(doc) // the caller has gone: nobody to tell
		return nil
	}
	ref, err := blobs.Parse(doc)
	if err != nil {
		return err
	}
	unhurried(w)
	body, err := s.cfg.Documents.Open(r.Context(), ref)
	if err != nil {
		return err
	}
	defer body.Close()
	w.Header().Set("Content-Length", strconv.FormatInt(ref.Size, 10))
	if err := copySlowly(w, body); err != nil {
		s.cfg.Logger.Debug("a document was not sent to its end", "item", id, "error", err)
		panic(http.ErrAbortHandler) // so that the caller sees that it is cut
	}
	return nil
}

// documentPart is the part of a document that is under way at once; partTime bounds
// the time in which a caller receives it.
const (
	documentPart = 256 << 10
	partTime     = 10 * time.Second
)

// copySlowly sends a document, for as long as its receiver takes some of it.
func copySlowly(w http.ResponseWriter, body io.Reader) error {
	out := http.NewResponseController(w)
	for {
		_ = out.SetWriteDeadline(time.Now().Add(partTime)) // not of a connection: a test's recorder
		if _, err := io.CopyN(w, body, documentPart); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
