package dispatcher

import (
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/streamwright/streamwright/dispatcher/clock"
)

// clockVerb runs what stories say of the server's clock, and tells the verdict:
//
//	clock                how it is
//	clock skew=D         the server's clock is wrong by so much from now on
//	clock skew=D start   the same, and the process ends and another starts
//	clock accept         an operator confirms it
func (st *story) clockVerb(td *datadriven.TestData) string {
	from := st.l.pipe.appended
	var skew string
	if td.MaybeScanArgs(st.t, "skew", &skew); skew != "" {
		st.skew = st.duration(skew)
	}
	switch {
	case td.HasArg("start"):
		st.sim.crash()
	case td.HasArg("accept"):
		st.accept = &clock.Acceptance{By: "ops"}
		st.sim.start()
	case skew != "":
		st.looked()
		st.settle()
	}
	s := st.l.clock.Status()
	line := fmt.Sprintf("%s: engine %s, server %s", s.Verdict, s.Engine.Sub(simStart), s.Server.Sub(simStart))
	if s.Blind {
		line += fmt.Sprintf(", due %s", st.l.clock.Due().Sub(simStart).Round(time.Millisecond))
	}
	return strings.Join(append([]string{line}, st.news(from)...), "\n")
}
