package api

import (
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// prepare checks what can be checked of reports before they wait for the
// engine. errs has an error for each report that can't be decided; nil if all
// can.
func (a *submitAPI) check(reports []wire.Report, errs []error) []error {
	return eachSound(reports, errs, func(r *wire.Report) error { return r.Prepare(a.Core.NewID, events.MaxParamsCeiling) })
}
