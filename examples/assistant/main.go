// Assistant handles requests with a language model. The client prints the model's text while it is
// made. Before it makes a refund the handler asks a person: the item waits and holds no slot, and the
// answer starts the next run.
//
//	engine serve &
//	go run ./examples/assistant "refund order 1234, 40 €"
//
// It prints the item's ID. Answer on the page under Work, Approvals, or with
//
//	engine answer ID approve --by bob
//	engine answer ID edit '{"order":"1234","euros":20}' --by bob
//	engine answer ID reject --comment "30 € at most" --by bob
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// Request is the text of a request.
type Request struct {
	Text string `json:"text"`
}

// Talk is what a run leaves to the next, as a checkpoint.
type Talk struct {
	Said []Message `json:"said"`
	Want *Refund   `json:"want,omitempty"` // what the model wants to do, and nobody has decided
}

var help = streamwright.Define[Request, string]("help")

// form is what an approver fills in: the tool's arguments.
const form = `{"type":"object","required":["order","euros"],"properties":{"order":{"type":"string"},"euros":{"type":"integer","minimum":1,"maximum":100}}}`

func main() {
	ctx := context.Background()
	c, err := streamwright.Connect(ctx, cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	x := assistant{model: fakeModel(100 * time.Millisecond), refund: new(shop).refund}
	w, err := x.start(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Stop(ctx)
	text := cmp.Or(strings.Join(os.Args[1:], " "), "refund order 1234, 40 €")
	if err := ask(ctx, c, text, os.Stdout); err != nil {
		log.Print(err)
	}
}

// assistant has a model and its tool.
type assistant struct {
	model  Model
	refund func(ctx context.Context, key string, r Refund) (string, error)
}

func (x assistant) start(ctx context.Context, c *streamwright.Client) (*workers.Worker, error) {
	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		return nil, err
	}
	help.Handle(w, x.help)
	return w, w.Start(ctx)
}

// help goes on with the talk from where the last run has left it, to its end or to a question.
func (x assistant) help(ctx context.Context, it *workers.Item[Request]) (string, error) {
	t := Talk{Said: []Message{{"user", it.Params.Text}}}
	if _, err := it.LoadCheckpoint(&t); err != nil {
		return "", err
	}
	for _, m := range t.Said { // each run's output begins anew
		fmt.Fprintln(it.Output(), m)
	}
	for {
		if t.Want != nil {
			if err := x.act(ctx, it, &t); err != nil {
				return "", err
			}
		}
		var text strings.Builder
		fmt.Fprint(it.Output(), Message{From: "assistant"})
		want, err := x.model(ctx, t.Said, io.MultiWriter(it.Output(), &text))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(it.Output())
		if want == nil {
			return text.String(), nil
		}
		t.Said, t.Want = append(t.Said, Message{"assistant", text.String()}), want
		if err := workers.Checkpoint(ctx, t); err != nil {
			return "", err
		}
	}
}

// act does what the model wants, if somebody has agreed. If nobody has answered, it asks.
func (x assistant) act(ctx context.Context, it *workers.Item[Request], t *Talk) error {
	// Each question has its own name: the last answer is given to a run once more if one is lost,
	// and must not be taken for one to what the model wants next.
	name := fmt.Sprintf("act-%d", len(t.Said))
	a, ok, err := workers.AnswerOf[Refund](it.RawItem, name)
	if err != nil {
		return err
	}
	if !ok {
		return workers.Ask(name, workers.Question{
			Title:    "May the assistant do this: refund?",
			Text:     t.Said[len(t.Said)-1].Text,
			Choices:  []workers.Choice{workers.ChoiceApprove, workers.ChoiceEdit, workers.ChoiceReject},
			Proposal: t.Want,
			Form:     json.RawMessage(form),
		}).For(24*time.Hour).OrFail("no_answer", "nobody has answered in a day")
	}
	said := []Message{{"approver", fmt.Sprintf("%s by %s. %s", a.Choice, a.By, a.Comment)}}
	if a.Approved() {
		// If this run is lost before its checkpoint, the next one comes here again, with the same key.
		result, err := x.refund(ctx, it.ID.String()+"/"+name, a.Value)
		if err != nil {
			return err
		}
		said = append(said, Message{"tool", result})
	}
	for _, m := range said {
		fmt.Fprintln(it.Output(), m)
	}
	t.Said, t.Want = append(t.Said, said...), nil
	return workers.Checkpoint(ctx, t)
}
