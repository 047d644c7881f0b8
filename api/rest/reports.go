package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// workReports is the body of a report request, for the document.
type workReports struct {
	Session string       `json:"session"`
	Reports []workReport `json:"reports" doc:"At most 1,000; each is judged alone."`
}

type workReported struct {
	Reports []wire.Reported `json:"reports"`
}

func (s *Server) reportWork(b WorkerBridge) {
	handle(s, operation{
		id: "report-work", method: http.MethodPost, path: workerPath + "/report", tag: tagWorkerAPI, endpoint: wire.APIReport,
		summary: "Report on runs",
		about: "At most 1,000 reports, which are decided in order and answered each on its own, also those that can't be read; the status is 200 then. " +
			"A report that got no answer, or unavailable, is to be sent again: a repeat gets the same answer and changes nothing. A result of more than 256 KiB goes to the object store: see docs/guides/BLOBS.md.",
		body: typeOf[workReports](), reply: typeOf[workReported](),
	}, func(ctx context.Context, in *struct {
		WorkerPath
		JSONBody
	}) (*output, error) {
		session, reports, errs, err := readReports(in.RawBody)
		if err != nil {
			return nil, problemOf(err)
		}
		replies, err := reportEach(ctx, b, in.ID, session, reports, errs)
		if err != nil {
			return nil, problemOf(err)
		}
		data, err := json.Marshal(workReported{replies})
		return &output{Status: http.StatusOK, Body: data}, err
	})
}

// readReports reads the body of a report request. errs has an error for each
// report that can't be read, nil if all can.
func readReports(data []byte) (session string, reports []wire.Report, errs []error, err error) {
	var body struct {
		Session *string         `json:"session"`
		Reports json.RawMessage `json:"reports"`
	}
	if err := wire.ReadStrict(data, &body); err != nil {
		return "", nil, nil, events.Refuse(events.CodeBadRequest, `the request can't be read: %s; send {"session":"…","reports":[…]}`, wire.JSONFault(err))
	}
	if body.Session == nil {
		return "", nil, nil, events.Refuse(events.CodeBadRequest, "the request has no session: send that of the worker's registration")
	}
	var list []workReport
	if wire.ReadStrict(body.Reports, &list) == nil && list != nil {
		reports = make([]wire.Report, len(list))
		for i := range list {
			reports[i] = list[i].wire()
		}
		return *body.Session, reports, nil, nil
	}
	var raws []json.RawMessage
	if json.Unmarshal(body.Reports, &raws) != nil || raws == nil {
		return "", nil, nil, events.Refuse(events.CodeBadRequest, "reports must be an array of reports")
	}
	reports, errs = make([]wire.Report, len(raws)), make([]error, len(raws))
	for i, raw := range raws {
		var one *workReport
		switch err := wire.ReadStrict(raw, &one); {
		case err != nil:
			errs[i] = events.Refuse(events.CodeBadRequest, "reports[%d] can't be read: %s", i, events.Clip(wire.JSONFault(err), maxDetail))
		case one == nil:
			errs[i] = events.Refuse(events.CodeBadRequest, "reports[%d] is null: it must be an object", i)
		default:
			reports[i] = one.wire()
		}
	}
	return *body.Session, reports, errs, nil
}

// reportEach passes on the reports that could be read, and puts the answers into
// their places.
func reportEach(ctx context.Context, b WorkerBridge, worker, session string, reports []wire.Report, errs []error) ([]wire.Reported, error) {
	if errs == nil {
		return b.Report(ctx, worker, session, reports)
	}
	if len(reports) > maxReports {
		return nil, events.Refuse(events.CodeTooLarge, "the request has %d reports: send at most %d at once", len(reports), maxReports)
	}
	sound := make([]wire.Report, 0, len(reports))
	for i, err := range errs {
		if err == nil {
			sound = append(sound, reports[i])
		}
	}
	answers, err := b.Report(ctx, worker, session, sound) // also none: the session must be the worker's
	if err != nil {
		return nil, err
	}
	all := make([]wire.Reported, len(errs))
	for i, err := range errs {
		if err != nil {
			all[i].Error = wire.FromError(err)
			continue
		}
		all[i], answers = answers[0], answers[1:]
	}
	return all, nil
}

// maxReports is bridge.MaxReports, which is the engine's.
const maxReports = 1000
