package faultproxy

import (
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

func TestFaults(t *testing.T) {
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
	p := New(t, s.ClientURL())
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
	p.Next(wire.APIStats, Reply("forged\r\n"), Lose, Refuse(events.Refuse(events.CodeNotOwner, "no longer")))
	for _, step := range []struct {
		body, want string
		heard      string // by the server
	}{
		{"a", "forged\r\n", ""},
		{"b", "", "beader"},
		{"d", `{"error":{"code":"not_owner","message":"no longer"}}`, ""},
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
	p.Await(wire.APIStats, 4)
	var bodies []string
	for _, b := range p.Requests(wire.APIStats) {
		bodies = append(bodies, string(b))
	}
	if !slices.Equal(bodies, []string{"a", "b", "d", "c"}) {
		t.Errorf("it was asked %q", bodies)
	}
}
