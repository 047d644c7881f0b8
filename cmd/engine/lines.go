package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
)

// lineJob submits one item for each line of a file.
type lineJob struct {
	a    *app
	base streamwright.Item // as the flags describe every item
	in   *bufio.Scanner
	read int // lines

	show        func(done, total int64) // of the bar; in bytes
	hide        func()
	bytes, size int64 // read, and in all: -1 if unknown

	numbers []int // of the lines in flight, oldest first; the client bounds its requests

	accepted, merged, repeated, refused int
	err                                 error // of reading
}

func (a *app) submitLines(ctx context.Context, f *submitFlags, args []string) error {
	if len(args) > 1 {
		return cli.Usagef("with --lines the params come from the file: leave %q out", args[1])
	}
	if f.wait || f.item.ID != "" || f.item.IdempotencyKey != "" || f.item.DedupKey != "" {
		return cli.Usagef("--wait, --id, --dedup-key and --idempotency-key are for one item: with --lines, write the keys into the lines")
	}
	j := &lineJob{a: a, base: f.item}
	if len(args) == 1 {
		if err := checkType(args[0]); err != nil {
			return err
		}
		j.base.Type = args[0]
	}
	source, size, err := openLines(f.lines, a.stdin)
	if err != nil {
		return err
	}
	defer source.Close()
	j.size = size
	j.show, j.hide = a.bar("submitting", inBytes)
	j.in = bufio.NewScanner(source)
	j.in.Buffer(make([]byte, 64<<10), maxDocument)
	return j.run(ctx)
}

// openLines opens the file of --lines, and returns its size, -1 if unknown.
func openLines(name string, in io.Reader) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(in), -1, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, fmt.Errorf("read the lines: %w", err)
	}
	size := int64(-1)
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return file, size, nil
}

func (j *lineJob) run(ctx context.Context) error {
	c, err := j.a.connectPatiently(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	start := time.Now()
	err = c.SubmitSeq(ctx, j.items(), j.done)
	if err == nil {
		err = j.err
	}
	j.summary(time.Since(start))
	switch {
	case err != nil:
		return err
	case j.refused > 0:
		return console.ErrTold
	}
	return nil
}

// items yields the items of the lines. It reports lines that are none, and skips
// them.
func (j *lineJob) items() iter.Seq[streamwright.Item] {
	return func(yield func(streamwright.Item) bool) {
		for j.in.Scan() {
			j.read++
			j.bytes += int64(len(j.in.Bytes()) + 1)
			j.show(j.bytes, j.size)
			line := bytes.TrimSpace(j.in.Bytes())
			if len(line) == 0 {
				continue
			}
			item, err := j.item(bytes.Clone(line))
			if err != nil {
				j.refuse(j.read, err)
				continue
			}
			j.numbers = append(j.numbers, j.read)
			if !yield(item) {
				return
			}
		}
		switch err := j.in.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			j.err = fmt.Errorf("read line %d: it has more than %d bytes: put what is large elsewhere and submit a reference to it", j.read+1, maxDocument)
		case err != nil:
			j.err = fmt.Errorf("read line %d: %w", j.read+1, err)
		}
	}
}

func (j *lineJob) item(line []byte) (streamwright.Item, error) {
	item := j.base
	if item.Type != "" {
		if !json.Valid(line) {
			return item, events.Refuse(events.CodeBadParams, "it is not JSON: %s", wire.JSONFault(json.Unmarshal(line, new(any))))
		}
		item.Params = json.RawMessage(line)
		return item, nil
	}
	var s wire.Submit
	if err := wire.ReadStrict(line, &s); err != nil {
		return item, events.Refuse(events.CodeBadRequest, "it is no submission: %s", wire.JSONFault(err))
	}
	if s.Type == "" {
		return item, events.Refuse(events.CodeBadType, `it has no "type": write it into the line, or give TYPE on the command line`)
	}
	return overlay(item, s), nil
}

// overlay returns the item of a line: its own fields, laid over those of the flags.
func overlay(item streamwright.Item, s wire.Submit) streamwright.Item {
	item.Type, item.ID, item.DedupKey, item.IdempotencyKey = s.Type, s.ID, s.DedupKey, s.IdempotencyKey
	if len(s.Params) > 0 {
		item.Params = s.Params
	}
	if s.Priority != nil {
		item.Priority = streamwright.PriorityOf(int(*s.Priority))
	}
	if !s.Delay.IsZero() || !s.AvailableAt.IsZero() {
		item.Delay, item.AvailableAt = s.Delay.Duration, s.AvailableAt
	}
	set(&item.MaxAttempts, s.MaxAttempts)
	set(&item.Timeout, s.Timeout.Duration)
	set(&item.Source, s.Source)
	set(&item.Trigger, s.Trigger)
	set(&item.Tenant, s.Tenant)
	set(&item.Trace, s.Trace)
	if len(s.Capabilities) > 0 {
		item.Capabilities = s.Capabilities
	}
	if len(s.Labels) > 0 {
		item.Labels = s.Labels
	}
	if len(s.After) > 0 {
		item.After = s.After
	}
	set(&item.Batch, s.Batch)
	set(&item.AfterPolicy, s.AfterPolicy)
	set(&item.DedupPolicy, s.DedupPolicy)
	set(&item.ExpiresAt, s.ExpiresAt)
	if f := s.Signal; f != nil {
		item.Signal = &streamwright.Signal{Name: f.Name, MsgID: f.MsgID, Payload: f.Payload}
	}
	set(&item.EstimatedDuration, s.EstimatedDuration.Duration)
	if s.DedupWindow != nil {
		item.DedupWindow = windowOf(s.DedupWindow.Duration)
	}
	return item
}

func set[T comparable](field *T, v T) {
	var zero T
	if v != zero {
		*field = v
	}
}

// done takes the outcome of the oldest line in flight.
func (j *lineJob) done(s streamwright.Submitted) error {
	n := j.numbers[0]
	j.numbers = j.numbers[1:]
	switch {
	case s.Error != nil:
		j.refuse(n, s.Error)
	case s.MergedInto != "":
		j.merged++
	case s.Repeat:
		j.repeated++
	default:
		j.accepted++
	}
	if j.a.JSON {
		return j.a.PrintJSON(s)
	}
	return nil
}

func (j *lineJob) refuse(line int, err error) {
	j.refused++
	j.hide()
	j.a.Notef("line %d: %s", line, console.Clean(err.Error()))
}

func (j *lineJob) summary(took time.Duration) {
	total := j.accepted + j.merged + j.repeated
	rate := int(float64(total) / max(took.Seconds(), 0.001))
	text := fmt.Sprintf("%s submitted in %s (%s/s)", console.Count(total), console.Span(took), console.Count(rate))
	if j.merged+j.repeated > 0 {
		text += fmt.Sprintf(": %s new, %s merged, %s", console.Count(j.accepted), console.Count(j.merged), console.Plural(j.repeated, "repeat"))
	}
	if j.refused > 0 {
		text += fmt.Sprintf("; %s refused", console.Count(j.refused))
	}
	j.hide()
	if j.a.JSON {
		j.a.Notef("%s", text)
		return
	}
	j.a.Printf("%s\n", text)
}
