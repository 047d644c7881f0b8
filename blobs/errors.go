package blobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
)

// The codes of a document that will not be had again, and of an attempt that
// failed because the object store could not be reached.
const (
	CodeGone        events.Code = "blob_gone"
	CodeDamaged     events.Code = "blob_damaged"
	FailUnavailable             = "blob_unavailable"
)

// Match with errors.Is.
var (
	// ErrGone: there is no such object. Its item has been pruned, it was swept
	// before its item came, or it was never put.
	ErrGone = &events.Error{Code: CodeGone}
	// ErrDamaged: the object is not, or no longer whole, what the reference was
	// made for.
	ErrDamaged = &events.Error{Code: CodeDamaged}
)

// Permanent reports whether asking again can't help.
func Permanent(err error) bool {
	switch events.CodeOf(err) {
	case CodeGone, CodeDamaged, events.CodeTooLarge, events.CodeBadParams:
		return true
	}
	return false
}

// The server's codes for lack of room, and for a message that is too large.
const (
	natsNoResources  = 10023
	natsNoMemory     = 10028
	natsNoStorage    = 10047
	natsStoreFailed  = 10077 // also: maximum bytes reached
	natsMsgTooLarge  = 10054
	natsInsufficient = 10122 // more than one stream of the account may have
)

// failed says what a request to the bucket met. ctx is the caller's: its own
// end is passed on as it is.
func (s *Store) failed(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	if e := (*events.Error)(nil); errors.As(err, &e) {
		return err
	}
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return events.Refuse(events.CodeUnavailable, "%s: the object store %s does not answer: is an engine running that has made it?", what, s.bucket)
	case errors.As(err, &api):
		switch int(api.ErrorCode) {
		case natsNoResources, natsNoMemory, natsNoStorage, natsStoreFailed, natsInsufficient:
			return events.Refuse(events.CodeUnavailable, "%s: the object store %s takes no more (%s): wait until items are pruned, or raise blob_max_size", what, s.bucket, api.Description)
		case natsMsgTooLarge:
			return events.Refuse(events.CodeTooLarge, "%s: the NATS server refuses chunks of %d bytes (%s): raise its max_payload", what, chunkBytes, api.Description)
		}
	}
	return events.Refuse(events.CodeUnavailable, "%s: the object store %s: %v", what, s.bucket, err)
}
