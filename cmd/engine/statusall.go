package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// statusAtOnce is the number of namespaces that status --all asks at the same time.
const statusAtOnce = 16

// namespaceStatus is a line of status --all. Info and Stats are those of `engine status`; without
// them Error says why the namespace does not answer.
type namespaceStatus struct {
	Namespace streamwright.Namespace `json:"namespace"`
	State     string                 `json:"state"` // as in the list of namespaces
	Paused    bool                   `json:"paused,omitempty"`
	Info      *streamwright.Info     `json:"info,omitempty"`
	Stats     *streamwright.Stats    `json:"stats,omitempty"`
	Error     *wire.Error            `json:"error,omitempty"`
}

// statusOfAll shows all namespaces. It fails, once all are shown, if one of them does not
// answer.
func (a *app) statusOfAll(ctx context.Context, c *streamwright.Client) error {
	listing, cancel := a.Within(ctx)
	defer cancel()
	list, err := c.Namespaces().List(listing)
	if events.CodeOf(err) == events.CodeForbidden {
		return events.Refuse(events.CodeForbidden, "--all takes the role read in every namespace, which this user lacks: give it */read, or show one with --namespace NAME")
	}
	if err = a.noteLacking(len(list), err); err != nil {
		return err
	}
	all := []namespaceStatus{{Namespace: streamwright.DefaultNamespace, State: wire.NamespaceRunning}}
	for _, n := range list {
		s := namespaceStatus{Namespace: n.Name, State: wire.NamespaceUnknown, Paused: n.Paused}
		if n.State != nil {
			s.State = n.State.State
			if n.State.Error != "" {
				s.Error = wire.FromError(events.Refuse(events.CodeUnavailable, "%s", n.State.Error))
			}
		}
		all = append(all, s)
	}
	var asks errgroup.Group
	asks.SetLimit(statusAtOnce)
	for i := range all {
		if all[i].State == wire.NamespaceRemoving { // which nobody expects to answer
			continue
		}
		asks.Go(func() error {
			a.askStatus(ctx, c, &all[i])
			return nil
		})
	}
	_ = asks.Wait() // each says itself what was wrong
	silent := slices.DeleteFunc(slices.Clone(all), func(s namespaceStatus) bool { return s.Error == nil })
	if err := a.showStatuses(all); err != nil {
		return err
	}
	if len(silent) > 0 {
		a.Notef("%d of %s did not answer", len(silent), console.Plural(len(all), "namespace"))
		return console.ErrTold
	}
	return nil
}

// askStatus asks one namespace how it is. What the list says is wrong with it counts more than
// that it does not answer.
func (a *app) askStatus(ctx context.Context, c *streamwright.Client, s *namespaceStatus) {
	ctx, cancel := a.Within(ctx)
	defer cancel()
	in, err := c.In(string(s.Namespace))
	if err != nil {
		s.Error = wire.FromError(err)
		return
	}
	defer in.Close()
	info, err := in.Engine().Info(ctx)
	var stats streamwright.Stats
	if err == nil {
		s.Info = &info
		stats, err = in.Engine().Stats(ctx)
	}
	switch {
	case err == nil:
		s.Stats, s.Error = &stats, nil
		if s.State == wire.NamespaceUnknown {
			s.State = wire.NamespaceRunning
		}
	case s.Error == nil:
		s.Error = wire.FromError(err)
	}
	if err != nil && s.State == wire.NamespaceRunning {
		s.State = wire.NamespaceUnknown
	}
}

func (a *app) showStatuses(all []namespaceStatus) error {
	head := []string{"NAMESPACE", "STATE", "OWNER", "QUEUED", "WAITING", "RUNNING", "DEAD", "OLDEST QUEUED", "SUBMITTED/S", "COMPLETED/S", "WORKERS", "PROBLEMS"}
	if err := showList(a, all, nil, "", head, a.statusRow); err != nil || a.JSON {
		return err
	}
	if slices.ContainsFunc(all, func(s namespaceStatus) bool { return s.Stats != nil && len(s.Stats.Alarms)+len(s.Stats.Attention) > 0 }) {
		a.Printf("\n%s\n", a.Calls("`engine status --namespace NAME` says what to do about the problems of one."))
	}
	return nil
}

// statusRow is the row of a namespace.
func (a *app) statusRow(s namespaceStatus) []string {
	state := s.State
	if s.Paused {
		state += ", paused"
	}
	row := []string{console.Clean(string(s.Namespace)), state, "-"}
	if s.Info != nil {
		row[2] = a.Style().Clip(cmp.Or(s.Info.Owner, "-"), 40)
	}
	if s.Stats == nil {
		why := ""
		if s.Error != nil {
			why = a.Style().Alarm(true, "no answer: "+console.Clean(s.Error.Message))
		}
		return append(row, "-", "-", "-", "-", "-", "-", "-", "-", why)
	}
	n, oldest := countOf(s.Stats.States), "-"
	if d := s.Stats.Ages.Oldest.Duration; d > 0 {
		oldest = console.Span(d)
	}
	return append(row,
		n(events.StateQueued, events.StateCreated, events.StateFailed), n(events.StateWaiting), n(events.StateClaimed, events.StateRunning), n(events.StateDead), oldest,
		rateText(s.Stats.PerSecond.Submitted), rateText(s.Stats.PerSecond.Completed), console.Count(s.Stats.Workers), a.problems(s.Stats))
}

// rateText is a number a second, with a digit behind the point if it is small.
func rateText(perSecond float64) string {
	if perSecond > 0 && perSecond < 100 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return console.Count(int64(perSecond))
}

// problems lists what `engine status` begins with, in few words.
func (a *app) problems(stats *streamwright.Stats) string {
	var words []string
	style := a.Style()
	for _, al := range stats.Alarms {
		critical := al.Severity == wire.AlarmCritical
		word := style.Alarm(critical, string(al.Severity)+" "+al.Code)
		if critical {
			word = style.Alarm(critical, strings.ToUpper(string(al.Severity))+" "+al.Code)
		}
		words = append(words, word)
	}
	for _, at := range stats.Attention {
		words = append(words, style.Alarm(at.Severity == wire.AlarmCritical, console.Clean(console.AttentionHead(at))))
	}
	return strings.Join(words, "; ")
}
