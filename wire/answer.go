package wire

import (
	"bytes"
	"strings"
)

// Whoever asks a NATS server for something names the subject of the answer, and
// the server does not check whether he may publish there. So an answer, or a
// stored message that was asked for, can come where only a submission or an
// event should. What follows tells it by what the server puts into it, which
// the asker can't take out.

// headerStream is in what a direct get answers.
const headerStream = "Nats-Stream"

// appendHeaders are in the engine's frames, or make a publish depend on what its stream
// has, which makes no sense in a submission, since the inbox is everybody's.
var appendHeaders = []string{"Work-Frame", "Nats-Expected-Last-Sequence", "Nats-Expected-Last-Msg-Id", "Nats-Batch-Id"}

// Fetched reports whether a message is the answer to a direct get.
func Fetched(header map[string][]string) bool { return len(header[headerStream]) > 0 }

// Got takes out of the header of a message that the caller itself got what that
// get has added, so that Fetched tells how the message came to where it was.
func Got(header map[string][]string) {
	if v := header[headerStream]; len(v) > 0 {
		header[headerStream] = v[:len(v)-1]
	}
}

// answered reports whether a submission is a server's answer, or a message of
// one of the engine's own streams.
func (n Names) answered(header map[string][]string, body []byte) bool {
	for _, s := range header[headerStream] {
		if n.Owns(s) {
			return true
		}
	}
	for _, h := range appendHeaders {
		if len(header[h]) > 0 {
			return true
		}
	}
	if len(body) == 0 && len(header["Status"]) > 0 || bytes.HasPrefix(body, []byte(`{"type":"io.nats.jetstream.api.`)) {
		return true
	}
	// The acknowledgement of a publish.
	if rest, ok := bytes.CutPrefix(body, []byte(`{"stream":"`)); ok {
		stream, rest, _ := bytes.Cut(rest, []byte{'"'})
		return n.Owns(string(stream)) && bytes.HasPrefix(bytes.TrimLeft(rest, ", "), []byte(`"seq":`))
	}
	return false
}

// OwnsSubject reports whether a subject is one of the engine's, in any of its namespaces.
func (n Names) OwnsSubject(subject string) bool { return follows(subject, n.root(), ".-") }

// follows reports whether s begins with root and one of the separators.
func follows(s, root, separators string) bool {
	rest, ok := strings.CutPrefix(s, root)
	return ok && rest != "" && strings.IndexByte(separators, rest[0]) >= 0
}

// IsDispatch reports whether a stream is the dispatch stream of any namespace, by its name.
func (n Names) IsDispatch(stream string) bool {
	return n.Owns(stream) && strings.HasSuffix(stream, "_DISPATCH")
}

// IsEvents reports whether a stream is the log of any namespace, by its name.
func (n Names) IsEvents(stream string) bool {
	_, partition, ok := strings.Cut(stream, "_EVENTS_")
	return ok && n.Owns(stream) && partition != ""
}

// OwnsAlone reports whether a stream is one of this namespace's alone, by its name.
func (n Names) OwnsAlone(stream string) bool {
	for _, prefix := range []string{n.stream(""), "KV_" + n.Bucket(""), "OBJ_" + n.Bucket("")} {
		if strings.HasPrefix(stream, prefix) {
			return true
		}
	}
	return false
}

// Owns reports whether a stream is one of the engine's, in any of its namespaces, by its name.
func (n Names) Owns(stream string) bool {
	for _, kind := range []string{"KV_", "OBJ_"} {
		if bucket, ok := strings.CutPrefix(stream, kind); ok {
			return follows(bucket, n.ImportDomain(), "_-")
		}
	}
	return follows(stream, n.Account(), "_-")
}
