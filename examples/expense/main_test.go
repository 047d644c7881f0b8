package main

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/examples/internal/engine"
)

// The accountant answers by the link of a reminder.
func TestExpense(t *testing.T) {
	ctx := engine.Context(t)
	c, url := engine.WithHTTP(t, ctx)
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := desk{page: url, every: time.Second, out: w}.run(ctx, c, Expense{Who: "ada", For: "train tickets", Sum: 80})
		w.Close()
		done <- err
	}()
	said, answered := "", false
	for lines := bufio.NewScanner(r); lines.Scan(); {
		said = lines.Text()
		if !strings.Contains(said, "reminder 1") {
			continue
		}
		if !strings.Contains(said, "Pay ada 80 € for train tickets?") {
			t.Error(said)
		}
		_, token, _ := strings.Cut(said, "/#/answer/")
		resp, err := http.Post(url+"/api/v1/tokens/"+token, "application/json", strings.NewReader(`{"result":{"choice":"edit","value":{"sum":40}}}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if answered = resp.StatusCode == http.StatusOK; !answered {
			t.Fatal(resp.Status)
		}
	}
	if err := <-done; err != nil || said != "ada gets 40 €" || !answered {
		t.Errorf("%q, %v", said, err)
	}
}
