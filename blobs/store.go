package blobs

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of transfers.
const (
	// DefaultMaxBytes bounds one object.
	DefaultMaxBytes int64 = 64 << 20

	chunkBytes = 128 << 10 // as every object store client cuts by default
	putWindow  = 8         // chunks of one Put that are not acknowledged
	// asyncPending bounds the chunks of all Puts of one Store together, far
	// beyond what putWindow lets come together.
	asyncPending = 1 << 20
	// requestTimeout bounds one request to the server, within the caller's
	// context.
	requestTimeout = 10 * time.Second
	// freshFor is the age up to which an existing object spares a Put: less than
	// the janitor's grace, so the object is not about to be swept. An older one
	// is put anew.
	freshFor = 15 * time.Minute
)

// Bucket is the name of the object store, for `nats object` and its like.
func Bucket(n wire.Names) string { return n.Bucket("blobs") }

// Stream is the name of the bucket's stream.
func Stream(n wire.Names) string { return "OBJ_" + Bucket(n) }

// Store puts and gets objects. All methods may be called from any goroutine.
// The bucket is the engine's to make.
type Store struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	names  func(context.Context) wire.Names
	bucket string
	stream string
	max    int64

	mu     sync.Mutex
	handle jetstream.Stream // guarded by mu; nil until the first use
}

// New makes a Store of objects up to max bytes (0: DefaultMaxBytes). It sends
// nothing.
func New(nc *nats.Conn, names wire.Names, max int64) (*Store, error) {
	js, err := connect.JetStream(nc, names, jetstream.WithPublishAsyncMaxPending(asyncPending), jetstream.WithPublishAsyncTimeout(requestTimeout))
	if err != nil {
		return nil, fmt.Errorf("open the object store: %w", err)
	}
	if max <= 0 {
		max = DefaultMaxBytes
	}
	return &Store{nc: nc, js: js, names: func(context.Context) wire.Names { return names }, bucket: Bucket(names), stream: Stream(names), max: max}, nil
}

// Locate has the Store ask where the bucket is before each use, in place of
// taking it to be where the names of New say: see [connect.Finder]. It must come
// before the Store is used.
func (s *Store) Locate(names func(context.Context) wire.Names) { s.names = names }

// MaxBytes bounds one object of this Store.
func (s *Store) MaxBytes() int64 { return s.max }

func (s *Store) chunkSubject(nuid string) string { return "$O." + s.bucket + ".C." + nuid }

func (s *Store) metaSubject(name string) string {
	return "$O." + s.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// use is a handle of the stream, for the engine alone. It goes by the name, so it
// serves a bucket that was made anew as well.
func (s *Store) use(ctx context.Context) (jetstream.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handle != nil {
		return s.handle, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	h, err := s.js.Stream(ctx, s.stream)
	if err != nil {
		return nil, err
	}
	s.handle = h
	return h, nil
}

// described is a description in the bucket.
type described struct {
	jetstream.ObjectInfo
	seq uint64
}

// maxDescriptions bounds the descriptions of one name that are looked at: the
// first ones, so later ones under the same name can't hide the object.
const maxDescriptions = 64

// find gives fn the descriptions of a name in the order in which they were put,
// until it returns true. Anybody who may put objects may put another
// description of an existing one, so the reference says which is meant. It
// skips what can't be read as a description.
func (s *Store) find(ctx context.Context, name string, fn func(described) bool) error {
	next := uint64(1)
	for range maxDescriptions {
		msg, err := s.get(ctx, directget.Request{Seq: next, NextFor: s.metaSubject(name)})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		next = msg.Seq + 1
		d := described{seq: msg.Seq}
		if json.Unmarshal(msg.Data, &d.ObjectInfo) != nil || !validNUID(d.NUID) {
			continue
		}
		if d.ModTime = msg.Time; fn(d) {
			return nil
		}
	}
	return nil
}

// maxNUID bounds the name of an object's chunks, in bytes.
const maxNUID = 64

// validNUID reports whether chunks may have this name. It is one token of a
// subject and no wildcard: a purge by any other could take the chunks of others.
func validNUID(nuid string) bool {
	for _, c := range []byte(nuid) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '=':
		default:
			return false
		}
	}
	return nuid != "" && len(nuid) <= maxNUID
}

// newNUID names the chunks of an object of an item. It begins with the item's
// id, so that a description can't claim the chunks of another item's: see owns.
func newNUID(id events.ID) string { return id.String() + "-" + rand.Text() }

// owns reports whether chunks belong to an item for certain.
func owns(id events.ID, nuid string) bool {
	return validNUID(nuid) && strings.HasPrefix(nuid, id.String()+"-")
}

// Put stores a document of an item and returns its reference, once the server
// has acknowledged all of it. The document is read twice, to name it by its
// digest and to send it, from its beginning. A document that is there already
// is not sent again, so a Put may be repeated. The error is an *events.Error
// (CodeTooLarge, or CodeUnavailable, which is worth another try) or ctx's.
func (s *Store) Put(ctx context.Context, id events.ID, kind Kind, doc io.ReadSeeker) (Ref, error) {
	what := fmt.Sprintf("put the %s of item %s", kind, id)
	start := func() error {
		_, err := doc.Seek(0, io.SeekStart)
		return err
	}
	if err := start(); err != nil {
		return Ref{}, fmt.Errorf("%s: %w", what, err)
	}
	ref, err := RefOf(id, kind, doc, s.max)
	if err != nil {
		return Ref{}, err
	}
	if known, err := s.fresh(ctx, ref); err != nil || known {
		return ref, s.failed(ctx, what, err)
	}
	if err := start(); err != nil {
		return Ref{}, fmt.Errorf("%s: %w", what, err)
	}
	return ref, s.failed(ctx, what, s.send(ctx, ref, doc))
}

// PutBytes is Put for a document in memory.
func (s *Store) PutBytes(ctx context.Context, id events.ID, kind Kind, doc []byte) (Ref, error) {
	return s.Put(ctx, id, kind, bytes.NewReader(doc))
}

func matches(info described, r Ref) bool {
	return !info.Deleted && info.Size == uint64(r.Size) && info.Digest == r.Digest
}

// send stores the chunks and then the description. nats.go's own Put has up to
// 4,000 chunks outstanding, and cleans up after itself by a purge, which
// clients may not do here: the janitor removes the leftovers of an unfinished
// Put.
func (s *Store) send(ctx context.Context, ref Ref, doc io.Reader) error {
	nuid := newNUID(ref.Item())
	up := upload{s: s, subject: s.chunkSubject(nuid), hash: sha256.New()}
	if err := up.sendAll(ctx, io.LimitReader(doc, ref.Size+1)); err != nil {
		return err
	}
	if up.total != ref.Size || digestOf(up.hash.Sum(nil)) != ref.Digest {
		return events.Refuse(events.CodeBadRequest, "the document of %s changed while it was read", ref.Name)
	}
	return s.publishInfo(ctx, ref, nuid, up.landed)
}

// publishInfo stores an object's description, which makes it one.
func (s *Store) publishInfo(ctx context.Context, ref Ref, nuid string, chunks []uint64) (err error) {
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: ref.Name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkBytes}},
		Bucket:     s.bucket, NUID: nuid, Size: uint64(ref.Size), Digest: ref.Digest, Chunks: uint32(len(chunks)),
	}
	if len(chunks) > 0 {
		info.Metadata = map[string]string{placesKey: places(chunks)}
	}
	msg := nats.NewMsg(s.metaSubject(ref.Name))
	if msg.Data, err = json.Marshal(info); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = s.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	return err
}

// upload is the chunks of one object on their way, and what they come to.
type upload struct {
	s       *Store
	subject string
	hash    hash.Hash
	total   int64
	flying  []jetstream.PubAckFuture // at most putWindow
	landed  []uint64                 // the sequences of the chunks that are stored
}

// sendAll sends a document, and returns once all of it is acknowledged.
func (u *upload) sendAll(ctx context.Context, doc io.Reader) error {
	for {
		if len(u.flying) == putWindow {
			if err := u.landFirst(ctx); err != nil {
				return err
			}
		}
		chunk := make([]byte, chunkBytes) // the client keeps it until it is acknowledged
		n, err := io.ReadFull(doc, chunk)
		if n > 0 {
			if err := u.send(chunk[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the document: %w", err)
		}
	}
	for len(u.flying) > 0 {
		if err := u.landFirst(ctx); err != nil {
			return err
		}
	}
	return nil
}

// landFirst awaits the acknowledgement of the oldest chunk that is on its way.
func (u *upload) landFirst(ctx context.Context) error {
	f := u.flying[0]
	u.flying = u.flying[1:]
	seq, err := landed(ctx, f)
	if err == nil {
		u.landed = append(u.landed, seq)
	}
	return err
}

// landAll returns once none is on its way, however that went, or with ctx.
func (u *upload) landAll(ctx context.Context) {
	for len(u.flying) > 0 && ctx.Err() == nil {
		_ = u.landFirst(ctx)
	}
}

func (u *upload) send(chunk []byte) error {
	u.hash.Write(chunk)
	u.total += int64(len(chunk))
	f, err := u.s.js.PublishMsgAsync(&nats.Msg{Subject: u.subject, Data: chunk}, jetstream.WithRetryAttempts(0))
	if err != nil {
		return err
	}
	u.flying = append(u.flying, f)
	return nil
}

// landed awaits an acknowledgement; the future itself gives up after
// requestTimeout.
func landed(ctx context.Context, f jetstream.PubAckFuture) (seq uint64, err error) {
	select {
	case ack := <-f.Ok():
		return ack.Sequence, nil
	case err := <-f.Err():
		return 0, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// DefaultBucketBytes bounds the bucket.
const DefaultBucketBytes int64 = 4 << 30

// BucketConfig says how the bucket is kept. Zero fields have defaults.
type BucketConfig struct {
	Memory    bool
	Replicas  int
	Placement []string // tags of the servers that hold the bucket
	MaxBytes  int64    // at the bound Puts are refused
}

// makeBucket makes the bucket, or brings it to this configuration. The stream
// is made directly, to differ from nats.go's in two ways. Without direct gets
// everything is read from the leader, which has every acknowledged message. And
// headers by which a message affects others are not allowed (rollups, times to
// live, schedules, batches): clients may publish here.
func (s *Store) makeBucket(ctx context.Context, c BucketConfig) error {
	conf := jetstream.StreamConfig{
		Name: s.stream, Description: "params and results that are too large for an event; see docs/guides/BLOBS.md",
		Subjects: []string{s.chunkSubject(">"), "$O." + s.bucket + ".M.>"},
		MaxBytes: c.MaxBytes, Discard: jetstream.DiscardNew, Replicas: max(c.Replicas, 1), Placement: connect.Placement(c.Placement),
		Duplicates: 100 * time.Millisecond, // the least; nobody uses message ids here
	}
	if s, err := s.js.Stream(ctx, s.stream); err == nil {
		conf.Placement = s.CachedInfo().Config.Placement
	}
	if conf.MaxBytes == 0 {
		conf.MaxBytes = DefaultBucketBytes
	}
	if c.Memory {
		conf.Storage = jetstream.MemoryStorage
	}
	_, err := s.js.CreateOrUpdateStream(ctx, conf)
	var api *jetstream.APIError
	if errors.As(err, &api) && (api.ErrorCode == natsNoStorage || api.ErrorCode == natsNoMemory || api.ErrorCode == natsInsufficient || api.ErrorCode == natsNoResources) {
		return events.WithCode(events.CodeBadConfig, fmt.Errorf("make the object store %s: %w: there is no room for the %d bytes of blob_max_size: lower it", s.bucket, err, conf.MaxBytes))
	}
	if err != nil {
		return fmt.Errorf("make the object store %s: %w", s.bucket, err)
	}
	return nil
}
