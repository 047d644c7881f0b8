package api

import (
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// prepare checks what can be checked of reports before they wait for the
// engine. errs has an error for each report that can't be decided; nil if all
// can.
func (s *Service) prepare(reports []wire.Report, errs []error) []error {
	for i := range reports {
		if errs != nil && errs[i] != nil {
			continue
		}
		if err := reports[i].Prepare(s.Core.NewID, events.MaxParamsCeiling); err != nil {
			if errs == nil {
				errs = make([]error, len(reports))
			}
			errs[i] = err
		}
	}
	return errs
}
