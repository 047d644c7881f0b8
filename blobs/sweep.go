package blobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Swept is the result of a sweep.
type Swept struct {
	Objects  int // descriptions looked at
	Orphans  int // objects of no item, deleted
	Marks    int // descriptions of nothing (marks that an object was deleted, and what can't be read), removed
	Partials int // chunks of no object, deleted; counted by what should have been an object
}

// Sweep goes through the whole bucket once and deletes what belongs to no item
// and is old enough. It may run beside everything else, one at a time. Objects
// whose names do not begin with an id are not ours, and stay.
func (j *Janitor) Sweep(ctx context.Context) (Swept, error) {
	j.sweeping.Lock()
	defer j.sweeping.Unlock()
	if err := j.store.makeBucket(ctx, j.cfg.Bucket); err != nil { // somebody may have deleted it
		return Swept{}, err
	}
	before, ok, err := j.before(ctx)
	if err != nil || !ok {
		return Swept{}, err
	}
	s := sweep{j: j, before: before, chunks: map[string]struct{}{}, kept: map[string]struct{}{}}
	if err := s.objects(ctx); err != nil {
		return s.Swept, fmt.Errorf("sweep the object store: %w", err)
	}
	if err := s.partials(ctx); err != nil {
		return s.Swept, fmt.Errorf("sweep the chunks of the object store: %w", err)
	}
	if s.Orphans+s.Partials > 0 {
		j.log.Info("swept the object store", "bucket", j.store.bucket, "objects", s.Objects, "orphans", s.Orphans, "partials", s.Partials)
	}
	return s.Swept, nil
}

// before is the time up to which an object without an item is an orphan; not ok
// if none is yet. An object is put at most a grace before its submission, so an
// older one belongs to no undecided submission.
func (j *Janitor) before(ctx context.Context) (t time.Time, ok bool, err error) {
	now, err := j.now(ctx)
	if err != nil {
		return t, false, err
	}
	if now.Sub(j.began) < j.cfg.Grace {
		// Whoever could not submit while no engine ran has had no time yet.
		return t, false, nil
	}
	oldest, err := j.cfg.Undecided(ctx)
	if err != nil {
		return t, false, fmt.Errorf("ask for what is not decided: %w", err)
	}
	if !oldest.IsZero() && oldest.Before(now) {
		now = oldest
	}
	return now.Add(-j.cfg.Grace), true, nil
}

// sweep is one Sweep under way.
type sweep struct {
	Swept
	j      *Janitor
	before time.Time
	// chunks holds the chunks that objects have, and kept the keys of the
	// objects found; both are bounded by MaxTracked, and over is set beyond it.
	chunks map[string]struct{}
	kept   map[string]struct{}
	over   bool
	last   uint64 // the sequence up to which all was seen
}

// objects goes through the descriptions.
func (s *sweep) objects(ctx context.Context) error {
	f, err := s.j.descriptions(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	for left := f.Pending(); left > 0; {
		wait, cancel := context.WithTimeout(ctx, requestTimeout)
		m, err := f.Next(wait)
		cancel()
		if err != nil {
			return err
		}
		s.last, left = m.Seq, m.Pending
		if err := s.object(ctx, s.j.describe(m)); err != nil {
			return err
		}
	}
	s.settle()
	return nil
}

// object looks at one.
func (s *sweep) object(ctx context.Context, o object) error {
	s.Objects++
	old := o.at.Before(s.before)
	if o.junk {
		if !old {
			return nil
		}
		s.Marks++
		return s.j.discard(ctx, o)
	}
	id, _, err := splitName(o.name)
	if err != nil {
		s.keep(o)
		return nil
	}
	if old {
		there, err := s.j.cfg.Exists(ctx, id)
		if err != nil {
			return err
		}
		if !there {
			return s.orphan(ctx, o)
		}
	}
	s.keep(o)
	s.j.track(o)
	return nil
}

func (s *sweep) orphan(ctx context.Context, o object) error {
	if err := s.j.remove(ctx, o); err != nil {
		return err
	}
	s.Orphans++
	return nil
}

func (s *sweep) keep(o object) {
	if len(s.kept) >= s.j.cfg.MaxTracked {
		s.over = true
		return
	}
	s.kept[o.key()] = struct{}{}
	s.chunks[o.nuid] = struct{}{}
}

// settle forgets the tracked objects that are not in the bucket any more.
func (s *sweep) settle() {
	if s.over {
		return
	}
	s.j.mu.Lock()
	var gone []object
	for _, list := range s.j.objects {
		for _, o := range list {
			if _, ok := s.kept[o.key()]; !ok && o.seq <= s.last {
				gone = append(gone, o)
			}
		}
	}
	s.j.over = false
	s.j.mu.Unlock()
	for _, o := range gone {
		s.j.forget(o)
	}
}

// partials deletes old chunks that belong to no object: the leftovers of an
// unfinished Put, or of an object that was put anew. In a bucket with more
// objects than are tracked it can't tell, and leaves them.
func (s *sweep) partials(ctx context.Context) error {
	if s.over {
		return nil
	}
	h, err := s.j.store.use(ctx)
	if err != nil {
		return err
	}
	prefix := s.j.store.chunkSubject("")
	asked, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := h.Info(asked, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		nuid := strings.TrimPrefix(subject, prefix)
		if _, ok := s.chunks[nuid]; ok || !validNUID(nuid) { // a purge takes wildcards, and a publish too
			continue
		}
		if err := s.partial(ctx, h, subject); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweep) partial(ctx context.Context, h jetstream.Stream, subject string) error {
	asked, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	last, err := h.GetLastMsgForSubject(asked, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && !last.Time.Before(s.before) {
		return nil // gone meanwhile, or perhaps under way
	}
	if err != nil {
		return err
	}
	if err := s.j.store.purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(last.Sequence+1)); err != nil {
		return err
	}
	s.Partials++
	return nil
}
