package query

import (
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// MaxHeldSource bounds the items held by a worker that a page takes from the
// index of workers. That index is in the order of ids, so it must be read whole
// for each page. A worker has at most events.MaxCapacity slots; for one that
// holds more than this there is no source, and claimed and running items are
// looked at one by one.
const MaxHeldSource = 10 * events.MaxCapacity

// heldStates are the bits of the states in which an item is held.
const heldStates = 1<<events.StateClaimed | 1<<events.StateRunning

// readWorker reads the worker whose items are asked for.
func (l *listing) readWorker(worker string) (err error) {
	if worker == "" {
		return nil
	}
	if l.worker, err = events.ParseWorkerID(worker); err != nil {
		return events.Refuse(events.CodeBadRequest, "worker: %v", err)
	}
	return nil
}

// heldBy is the source of the items that a worker holds; nil if they are more than
// maxHeldSource. The index says which they are, the items where they stand.
func (s *scan) heldBy(w events.WorkerID) (source, error) {
	var places places
	prefix := layout.AppendWorkerPrefix(nil, w)
	err := s.v.Scan(prefix, prefix, func(key, _ []byte) (bool, error) {
		it, err := s.v.Indexed(key, len(prefix))
		if err != nil {
			return false, err
		}
		places = append(places, layout.ListPlace{Seq: it.Seq, ID: it.ID})
		return len(places) <= MaxHeldSource, nil
	})
	if err != nil || len(places) > MaxHeldSource {
		return nil, err
	}
	slices.SortFunc(places, layout.ListPlace.Compare)
	if s.start != nil {
		return &places, places.seek(s.start.Next())
	}
	return &places, nil
}

// places is the rest of a source that is held in memory.
type places []layout.ListPlace

// spot implements source.
func (p *places) spot() spot {
	if len(*p) == 0 {
		return spot{}
	}
	return spot{place: (*p)[0], exact: true, ok: true}
}

// seek implements source.
func (p *places) seek(to layout.ListPlace) error {
	n, _ := slices.BinarySearchFunc(*p, to, layout.ListPlace.Compare)
	*p = (*p)[n:]
	return nil
}
