package faultproxy

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

func dial(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// serve starts a proxy, and behind it what answers all requests, and tells what it hears.
func serve(t *testing.T) (*Proxy, <-chan string) {
	t.Helper()
	s := natscluster.Alone(t, 0)
	server := dial(t, s.ClientURL())
	asked := make(chan string, 9)
	if _, err := server.Subscribe(wire.Default.API("*"), func(m *nats.Msg) {
		asked <- string(m.Data) + m.Header.Get("H")
		_ = m.Respond(append([]byte("real "), m.Data...))
	}); err != nil {
		t.Fatal(err)
	}
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
	return New(t, s.ClientURL()), asked
}

func TestFaults(t *testing.T) {
	p, asked := serve(t)
	client := dial(t, p.URL)
	ask := func(body string, timeout time.Duration) (string, error) {
		m := nats.NewMsg(wire.Default.API(wire.APIStats))
		m.Data = []byte(body)
		if body == "b" || body == "c" {
			m.Header.Set("H", "eader")
		}
		answer, err := client.RequestMsg(m, timeout)
		if err != nil {
			return "", err
		}
		return string(answer.Data), nil
	}
	p.Next(wire.APIStats, Reply("forged\r\n"), Lose, Refuse(events.Refuse(events.CodeNotOwner, "no longer")), Drop)
	for _, step := range []struct {
		body, want string
		heard      string // by the server
	}{
		{"a", "forged\r\n", ""},
		{"b", "", "beader"},
		{"d", `{"error":{"code":"not_owner","message":"no longer"}}`, ""},
		{"e", "", ""},
		{"c", "real c", "ceader"},
	} {
		timeout := time.Minute
		if step.want == "" {
			timeout = 50 * time.Millisecond // nothing comes
		}
		got, err := ask(step.body, timeout)
		if got != step.want || (err != nil) != (step.want == "") {
			t.Errorf("%s: got %q, %v, want %q", step.body, got, err, step.want)
		}
		if step.heard != "" {
			if heard := <-asked; heard != step.heard {
				t.Errorf("%s: the server heard %q", step.body, heard)
			}
		}
	}
	if len(asked) > 0 {
		t.Errorf("the server heard %q", <-asked)
	}
	p.Await(wire.APIStats, 5)
	var bodies []string
	for _, b := range p.Requests(wire.APIStats) {
		bodies = append(bodies, string(b))
	}
	if !slices.Equal(bodies, []string{"a", "b", "d", "e", "c"}) {
		t.Errorf("it was asked %q", bodies)
	}
}

// Without an engine a client hears so at once; a judge chooses by what is asked.
func TestAwayAndJudge(t *testing.T) {
	p, asked := serve(t)
	client := dial(t, p.URL)
	p.Judge(wire.APIStats, func(request []byte) Fault {
		if string(request) == "a" {
			return Reply("forged")
		}
		return Fault{}
	})
	p.Next(wire.APIStats, Fault{}, Reply("next"))
	ask := func(endpoint, body, want string) {
		t.Helper()
		m, err := client.Request(wire.Default.API(endpoint), []byte(body), time.Minute)
		if want == "" {
			if !errors.Is(err, nats.ErrNoResponders) {
				t.Errorf("%s %s: got %+v, %v", endpoint, body, m, err)
			}
		} else if err != nil || string(m.Data) != want {
			t.Errorf("%s %s: got %+v, %v, want %s", endpoint, body, m, err, want)
		}
	}
	ask(wire.APIStats, "a", "real a")
	ask(wire.APIStats, "a", "next")
	ask(wire.APIStats, "a", "forged")
	ask(wire.APIStats, "b", "real b")
	ask(wire.APIInfo, "a", "real a")
	p.Away()
	ask(wire.APIStats, "a", "")
	ask(wire.APIInfo, "b", "")
	p.Back()
	p.Judge(wire.APIStats, nil)
	ask(wire.APIStats, "a", "real a")
	if len(asked) != 4 {
		t.Errorf("the server heard %d requests", len(asked))
	}
}
