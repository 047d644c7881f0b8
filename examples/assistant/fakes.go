package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Message is a part of a talk.
type Message struct {
	From string `json:"from"` // user, assistant, approver or tool
	Text string `json:"text"`
}

func (m Message) String() string { return m.From + ": " + m.Text }

// Refund is the arguments of the tool that the model may want to use.
type Refund struct {
	Order string `json:"order"`
	Euros int    `json:"euros"`
}

// Model continues a talk. It writes its words to w as they come, and returns the refund that it
// wants to make, nil for none. The client of a real language model goes here.
type Model func(ctx context.Context, said []Message, w io.Writer) (*Refund, error)

var (
	orderIn = regexp.MustCompile(`order (\w+)`)
	eurosIn = regexp.MustCompile(`(\d+) €`)
)

// fakeModel makes a model that knows refunds alone. It thinks that long before each word.
func fakeModel(think time.Duration) Model {
	return func(ctx context.Context, said []Message, w io.Writer) (want *Refund, err error) {
		last, text := said[len(said)-1], "Then I leave it."
		order, euros := orderIn.FindStringSubmatch(said[0].Text), eurosIn.FindStringSubmatch(last.Text)
		switch {
		case last.From == "tool":
			text = "It is done. Is there anything else?"
		case order != nil && euros != nil:
			text = fmt.Sprintf("Order %s is paid, so %s € may go back. I ask before I do it.", order[1], euros[1])
			want = &Refund{Order: order[1]}
			if want.Euros, err = strconv.Atoi(euros[1]); err != nil {
				return nil, err
			}
		}
		for word := range strings.SplitAfterSeq(text, " ") {
			select {
			case <-time.After(think):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			if _, err := io.WriteString(w, word); err != nil {
				return nil, err
			}
		}
		return want, nil
	}
}

// shop pays back. It stands for a service that does a thing once for each idempotency key, as
// those that move money do. Such a key makes an act that may be repeated one that is done once.
type shop struct {
	mu   sync.Mutex
	paid map[string]Refund // by key
}

func (s *shop) refund(_ context.Context, key string, r Refund) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, done := s.paid[key]; !done {
		if s.paid == nil {
			s.paid = map[string]Refund{}
		}
		s.paid[key] = r
	}
	return fmt.Sprintf("%d € back for order %s", s.paid[key].Euros, s.paid[key].Order), nil
}
