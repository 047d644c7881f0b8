package backup

import (
	"testing"

	"github.com/streamwright/streamwright/wire"
)

func TestRename(t *testing.T) {
	n := rename{wire.Default.Namespace("acme"), wire.Default.Namespace("beta")}
	for _, tt := range []struct{ subject, data, want, wantData string }{
		{"work-acme.frame.0", `{"bucket":"work-acme_blobs"}`, "work-beta.frame.0", `{"bucket":"work-acme_blobs"}`},
		{"work-acme.intake.0.work-acme", "", "work-beta.intake.0.work-acme", ""},
		{"$O.work-acme_blobs.C.x", `{"bucket":"work-acme_blobs"}`, "$O.work-beta_blobs.C.x", `{"bucket":"work-acme_blobs"}`},
		{"$O.work-acme_blobs.M.x", `{"bucket":"work-acme_blobs","size":1}`, "$O.work-beta_blobs.M.x", `{"bucket":"work-beta_blobs","size":1}`},
		{"$O.work-acme_blobs.M.x", `{"bucket":"mine"}`, "$O.work-beta_blobs.M.x", `{"bucket":"mine"}`},
		{"$O.work-acme_blobs.M.x", "no description", "$O.work-beta_blobs.M.x", "no description"},
		{"$O.work_blobs.M.x", "", "", ""},
		{"work.frame.0", "", "", ""},
		{"work-acme2.frame.0", "", "", ""},
	} {
		r := Record{Seq: 7, Subject: tt.subject, Data: []byte(tt.data)}
		if err := n.record(&r); (err != nil) != (tt.want == "") || err == nil && (r.Subject != tt.want || string(r.Data) != tt.wantData) {
			t.Errorf("%s %s: %s %s, %v", tt.subject, tt.data, r.Subject, r.Data, err)
		}
	}
}
