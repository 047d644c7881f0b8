package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// capture keeps what a result can be made of: all of stdout as long as it is
// at most max bytes, and in any case its last line. Its memory is bounded by
// about three times max.
type capture struct {
	max      int
	whole    []byte // all of it, unless overflow
	overflow bool
	line     []byte // the line being written, cut behind max+1 bytes
	last     []byte // the last finished line that is not blank
	total    int64
}

// Write never fails: a child must not get an error for writing too much.
func (c *capture) Write(b []byte) (int, error) {
	c.total += int64(len(b))
	if !c.overflow && len(c.whole)+len(b) <= c.max {
		c.whole = append(c.whole, b...)
		return len(b), nil
	}
	if !c.overflow {
		c.overflow = true
		c.track(c.whole)
		c.whole = nil
	}
	c.track(b)
	return len(b), nil
}

// track follows the lines of output that does not fit.
func (c *capture) track(b []byte) {
	for part, whole := range pieces(b) {
		c.line = append(c.line, part[:min(len(part), c.max+1-len(c.line))]...)
		if !whole {
			return
		}
		if len(bytes.TrimSpace(c.line)) > 0 {
			c.line, c.last = c.last[:0], c.line
		} else {
			c.line = c.line[:0]
		}
	}
}

// pieces yields the lines of b, without their ends, and whether each has one.
func pieces(b []byte) iter.Seq2[[]byte, bool] {
	return func(yield func([]byte, bool) bool) {
		for line := range bytes.Lines(b) {
			if !yield(bytes.CutSuffix(line, []byte("\n"))) {
				return
			}
		}
	}
}

// result reads stdout: its last line if that is JSON, else the whole
// text as a JSON string, nil if it is blank.
func (c *capture) result() (any, error) {
	last := c.lastLine()
	if len(last) == 0 {
		return nil, nil
	}
	if len(last) <= c.max && utf8.Valid(last) && json.Valid(last) {
		return json.RawMessage(bytes.Clone(last)), nil
	}
	if c.overflow {
		err := fmt.Errorf("the child wrote %d bytes to stdout: a result has at most %d, unless the last line is JSON; write the output elsewhere and a reference to it to stdout", c.total, c.max)
		return nil, workers.Permanent(workers.WithCode(err, workers.FailBadResult))
	}
	text := bytes.TrimSuffix(c.whole, []byte("\n"))
	text = bytes.TrimSuffix(text, []byte("\r"))
	return string(text), nil
}

func (c *capture) lastLine() []byte {
	if !c.overflow {
		text := bytes.TrimSpace(c.whole)
		return bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:])
	}
	if line := bytes.TrimSpace(c.line); len(line) > 0 {
		return line
	}
	return bytes.TrimSpace(c.last)
}

// lineLogger turns stderr into log records. It is written by one goroutine.
type lineLogger struct {
	log   func(line string)
	part  []byte
	lines int
	last  string // the last line logged
}

// Write never fails: a child must not get an error for saying too much.
func (l *lineLogger) Write(b []byte) (int, error) {
	for part, whole := range pieces(b) {
		for len(l.part)+len(part) > workers.MaxLogText {
			fit := workers.MaxLogText - len(l.part)
			l.part = append(l.part, part[:fit]...)
			part = part[fit:]
			l.flush()
		}
		l.part = append(l.part, part...)
		if whole {
			l.flush()
		}
	}
	return len(b), nil
}

// flush logs the line so far, if there is any.
func (l *lineLogger) flush() {
	line := string(bytes.TrimSuffix(l.part, []byte("\r")))
	l.part = l.part[:0]
	if line == "" {
		return
	}
	l.last = line
	l.lines++
	switch {
	case l.lines <= MaxLogLines:
		l.log(line)
	case l.lines == MaxLogLines+1:
		l.log(fmt.Sprintf("further lines are dropped: a run logs at most %d", MaxLogLines))
	}
}

// maxLeftOutput bounds what is read of a pipe once the child has exited: more than a pipe holds.
const maxLeftOutput = 4 << 20

// streamed passes stdout on to the item's output.
type streamed struct{ out *workers.Output }

// take drops what can't be written: a child must not get an error for writing too much.
func (s streamed) take(b []byte) { _, _ = s.out.Write(b) }

func (s streamed) result() (any, error) {
	if err := s.out.Flush(); err != nil && !errors.Is(err, workers.ErrOutputFull) {
		return nil, workers.WithCode(err, workers.FailOutput)
	}
	return wire.OutputResult(s.out.Summary()), nil
}
