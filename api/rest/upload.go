package rest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
)

// Bounds of uploads. A document is never in memory as a whole.
const (
	// MaxUploads bounds the documents that are put at once; more are refused with
	// "unavailable".
	MaxUploads = 16
	// MaxUploadBytes bounds one.
	MaxUploadBytes = blobs.DefaultMaxBytes
	// uploadTime bounds the time that one takes, and partTime that without a byte.
	uploadTime = LongTime
)

const uploadPath = "/api/v1/blobs"

// isUpload reports whether the body of a request is not read into memory.
func isUpload(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == uploadPath }

// Uploaded answers an upload.
type Uploaded struct {
	Item     string    `json:"item" doc:"The id that the item is to be submitted with, or that it has."`
	Document blobs.Ref `json:"document" doc:"What is submitted as params, or reported as result."`
}

// uploaded is Uploaded for the document.
type uploaded struct {
	Item     string         `json:"item" doc:"The id that the item is to be submitted with, or that it has."`
	Document map[string]any `json:"document" doc:"The reference: what is submitted as params, or reported as result."`
}

var errTooManyUploads = &events.Error{
	Code: events.CodeUnavailable, RetryAfter: 5 * time.Second,
	Message: "too many documents are put at once: send it again in a few seconds",
}

// mountUploads takes documents that are too large for a request into the object
// store.
func (s *Server) mountUploads() {
	pattern := "POST " + uploadPath
	s.Mount(pattern, access.RolesOf(access.Submit, access.Work), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply, err := s.upload(w, r)
		if err != nil {
			writeProblem(w, err)
			return
		}
		repliesJSON(w)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(reply) // the caller has gone: it asks again
	}))
	s.Describe(pattern, Doc{
		Summary: "Put a large document into the object store",
		Description: "The body is a JSON document of up to 64 MiB, which is stored as it is. The reply has the reference that stands for it, " +
			"as the params of the item that is submitted with this id within an hour, or as the result of the item that has it. See docs/guides/BLOBS.md.",
	})
	op := s.doc.find(http.MethodPost, uploadPath)
	op.Parameters = []*huma.Param{
		{Name: "item", In: "query", Description: "The item's id; left out, a new one is made.", Schema: &huma.Schema{Type: huma.TypeString}},
		{Name: "kind", In: "query", Description: "params (also if it is left out) or result.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{string(blobs.Params), string(blobs.Result)}}},
	}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Description: "Any JSON document."}}}}
	op.Responses["201"] = &huma.Response{Description: "It is stored.", Content: map[string]*huma.MediaType{
		"application/json": {Schema: s.doc.schema(typeOf[uploaded](), "Uploaded")},
	}}
	op.Responses["413"] = &huma.Response{Description: http.StatusText(http.StatusRequestEntityTooLarge), Content: op.Responses["400"].Content}
	delete(op.Responses, "200")
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request) (Uploaded, error) {
	id, kind, err := uploadOf(r)
	switch {
	case err != nil:
		return Uploaded{}, err
	case s.cfg.Documents == nil:
		return Uploaded{}, s.lacks("has no object store")
	case r.ContentLength > MaxUploadBytes:
		return Uploaded{}, events.Refuse(events.CodeTooLarge, "the document has %d bytes, at most %d are stored: keep it elsewhere and pass a reference to it", r.ContentLength, MaxUploadBytes)
	}
	select {
	case s.uploads <- struct{}{}:
		defer func() { <-s.uploads }()
	default:
		return Uploaded{}, errTooManyUploads
	}
	user := s.user(IdentityOf(r.Context()))
	if err := user.Submit(0, 0); err != nil { // of so many bytes that the sum is known at the end
		return Uploaded{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), uploadTime)
	defer cancel()
	part := &incoming{Reader: r.Body, rc: http.NewResponseController(w), until: time.Now().Add(uploadTime), stopping: ctx}
	ref, err := s.cfg.Documents.PutFrom(ctx, id, kind, part)
	_ = part.rc.SetReadDeadline(time.Time{})
	user.Took(part.read)
	if err != nil && s.stopping.Err() != nil {
		err = events.ErrShuttingDown
	}
	return Uploaded{id.String(), ref}, err
}

// uploadOf reads the parameters of an upload.
func uploadOf(r *http.Request) (id events.ID, kind blobs.Kind, err error) {
	q := r.URL.Query()
	for name := range q {
		if name != "item" && name != "kind" {
			return id, kind, events.Refuse(events.CodeBadRequest, "unknown query parameter %q: check its spelling", events.Clip(name, 64))
		}
	}
	switch kind = blobs.Kind(q.Get("kind")); kind {
	case "":
		kind = blobs.Params
	case blobs.Params, blobs.Result:
	default:
		return id, kind, events.Refuse(events.CodeBadRequest, "kind is %q: it must be params or result", events.Clip(string(kind), 64))
	}
	if text := q.Get("item"); text != "" {
		if id, err = events.ParseID(text); err != nil {
			return id, kind, events.Refuse(events.CodeBadID, "%v", err)
		}
		return id, kind, nil
	}
	if kind == blobs.Result {
		return id, kind, events.Refuse(events.CodeBadID, "a result is that of an item: give its id as item")
	}
	return events.ID(ulid.Make()), kind, nil
}

// incoming is a body that comes part by part, for as long as some of it comes.
type incoming struct {
	io.Reader
	rc       *http.ResponseController
	until    time.Time
	stopping context.Context
	read     int64
}

// Read implements io.Reader. Its errors are *events.Errors, or io.EOF.
func (b *incoming) Read(p []byte) (int, error) {
	if err := b.stopping.Err(); err != nil {
		return 0, events.ErrShuttingDown
	}
	at := time.Now().Add(partTime)
	if b.until.Before(at) {
		at = b.until
	}
	_ = b.rc.SetReadDeadline(at) // not of a connection: a test's recorder
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	var slow net.Error
	switch {
	case b.read == 0 && errors.Is(err, io.EOF):
		return n, events.Refuse(events.CodeBadRequest, "the body is empty: send the document")
	case err == nil, errors.Is(err, io.EOF):
		return n, err
	case errors.As(err, &slow) && slow.Timeout():
		return n, events.Refuse(events.CodeTimeout, "the body did not come in time: send it again")
	}
	return n, events.Refuse(events.CodeBadRequest, "the body can't be read to its end")
}
