package layout

import (
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

func TestEveryKeyHasADescription(t *testing.T) {
	id := events.ID{7}
	ref := events.KeyRef{Kind: events.KeyDedup, Type: "email", Key: "k\x00"}
	keys := map[string][]byte{
		"the partition's record":                                            MetaKey(MetaState),
		"the last event's checksum":                                         MetaKey(MetaChecksum),
		"the log's identity":                                                MetaKey(MetaIdentity),
		"type email":                                                        AppendTypeKey(nil, "email"),
		"item " + id.String():                                               IDKey(PrefixItem, id),
		"params of item " + id.String():                                     IDKey(PrefixParams, id),
		"result of item " + id.String():                                     IDKey(PrefixResult, id),
		"event 3 in the history of item " + id.String():                     AppendSeqKey(nil, PrefixHistory, id, 3),
		"submission merged into item " + id.String() + " by event 3":        AppendSeqKey(nil, PrefixMerged, id, 3),
		`dedup key "k\x00" of type email`:                                   AppendHeldKey(nil, ref),
		`expiry at 1970-01-01T00:00:01Z of dedup key "k\x00" of type email`: AppendExpiryKey(nil, time.Unix(1, 0), ref),
		"intake message 9":                                                  AppendIntakeKey(nil, 9),
		"rejected submission of event 9":                                    AppendRejectedKey(nil, 9),
		"what intake message 9 became":                                      AppendAnswerKey(nil, 9),
		"the book of rejected submissions":                                  MetaKey(MetaRejected),
		"item " + id.String() + ` among those with label region="eu\x00", event 4`:      AppendListPlace(AppendTerm(nil, TermLabel, "eu\x00", "region"), ListPlace{Seq: 4, ID: id}),
		"item " + id.String() + ` among those with the word "refused", event 4`:         AppendListPlace(AppendTerm(nil, TermWord, "refused"), ListPlace{Seq: 4, ID: id}),
		"item " + id.String() + " among those with parent " + id.String() + ", event 4": AppendListPlace(AppendTerm(nil, TermParent, string(id[:])), ListPlace{Seq: 4, ID: id}),
		"item " + id.String() + ` among those with schedule "nightly", event 4`:         AppendListPlace(AppendTerm(nil, TermSchedule, "nightly"), ListPlace{Seq: 4, ID: id}),
		"item " + id.String() + ` among those that are dead of cause "c"`:               AppendDeadKey(nil, &events.Item{ID: id, Cause: "c"}),
	}
	for want, key := range keys {
		if got := DescribeKey(key); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, key := range []string{"", "x", "i123", "m", "mz", "l"} {
		if got := DescribeKey([]byte(key)); !strings.Contains(got, "key") {
			t.Errorf("%q: %s", key, got)
		}
	}
}

// Whatever a program of this version writes has a description.
func TestEveryPrefixHasADescription(t *testing.T) {
	id, at := events.ID{7}, time.Unix(1, 0)
	keys := [][]byte{
		MetaKey(MetaState), MetaKey(MetaChecksum), MetaKey(MetaIdentity), MetaKey(MetaKeeps), MetaKey(MetaRejected),
		AppendTypeKey(nil, "t"), AppendRecordKey(nil, events.Record{Kind: events.RecordCause, Key: "k"}), AppendSeqKey(nil, PrefixHistory, id, 1), AppendSeqKey(nil, PrefixMerged, id, 1),
		AppendExpiryKey(nil, at, events.KeyRef{Kind: events.KeyMsgID}), AppendListKey(nil, &events.Item{ID: id}), AppendTimerKey(nil, at, id), AppendTimerKey(nil, time.Time{}, id),
		append(AppendWorkerPrefix(nil, "w"), id[:]...), AppendIntakeKey(nil, 1), AppendRejectedKey(nil, 1), AppendAnswerKey(nil, 1), AppendDeadKey(nil, &events.Item{ID: id}), IDKey(PrefixFollowUp, id),
		append(IDKey(PrefixWaiter, id), id[:]...), append(IDKey(PrefixChild, id), id[:]...), IDKey(PrefixItem, id),
		append(AppendTime(AppendText(append(AppendText(AppendText([]byte{PrefixReady}, "t"), "lane"), 3), "group"), at), id[:]...),
	}
	for _, k := range events.DocKinds {
		keys = append(keys, IDKey(DocPrefix(k), id))
	}
	for _, k := range []events.KeyKind{events.KeyDedup, events.KeyIdempotency, events.KeyMsgID, events.KeyRate, events.KeyGroup} {
		keys = append(keys, AppendHeldKey(nil, events.KeyRef{Kind: k, Type: "t", Key: "k"}))
	}
	for _, k := range []byte{TermTenant, TermDedup, TermWord, TermSchedule} {
		keys = append(keys, AppendListPlace(AppendTerm(nil, k, "x"), ListPlace{1, id}))
	}
	said := map[string]bool{}
	for _, key := range keys {
		if d := DescribeKey(key); strings.Contains(d, "no known kind") || strings.Contains(d, "of kind") && key[0] != PrefixRecord || said[d] {
			t.Errorf("%q: %s", key, d)
		} else {
			said[d] = true
		}
		if d := DescribeKey(append(key, 0)); key[0] != PrefixType && key[0] != PrefixRecord && key[0] != PrefixKey && key[0] != PrefixExpiry && !strings.Contains(d, "no known kind") {
			t.Errorf("with a byte behind its end: %s", d)
		}
	}
}

// A difference of items is told by its fields, one of histories by their events, any other by
// the values.
func TestDifferences(t *testing.T) {
	id := events.ID{7}
	a, b := sample(events.StateRunning), sample(events.StateRunning)
	b.Worker, b.Attempt = "other", 3
	ra, rb := AppendItem(nil, a), AppendItem(nil, b)
	key, item := IDKey(PrefixItem, id), "item "+id.String()+" differs: "
	event := func(reason string) []byte {
		data, err := AppendHistory(nil, &events.Event{Kind: events.KindQueued, At: time.Unix(1, 0), Body: &events.Queued{Reason: reason}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	long := []byte(strings.Repeat("x", 1000))
	for _, c := range []struct {
		key, a, b []byte
		want      []string
	}{
		{key, ra, rb, []string{item + "Attempt is 2, against 3; Worker is w1, against other"}},
		{key, ra, ra, []string{item + "in its encoding only"}},
		{key, ra, []byte("no item"), []string{item, `against "no item"`}},
		{AppendSeqKey(nil, PrefixHistory, id, 3), event("one reason"), event("another"), []string{"event 3 in the history of item", `one reason`, `queued`, "against", "another"}},
		{AppendTypeKey(nil, "t"), []byte("1"), long, []string{`type t differs: "1", against "xxx`, "… (1000 bytes)"}},
	} {
		got := DescribeDifference(c.key, c.a, c.b)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("got %s, want %s", got, w)
			}
		}
		if len(got) > 600 {
			t.Errorf("it is long: %s", got)
		}
	}
}
