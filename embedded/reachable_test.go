package embedded

import "testing"

// What is printed for a server that listens on all addresses can be opened.
func TestAddressesThatArePrintedCanBeOpened(t *testing.T) {
	for listen, want := range map[string]string{
		"0.0.0.0:8484": "127.0.0.1:8484", "[::]:8484": "127.0.0.1:8484", ":8484": "127.0.0.1:8484",
		"127.0.0.1:1": "127.0.0.1:1", "[::1]:1": "[::1]:1", "192.0.2.7:8484": "192.0.2.7:8484", "engine.example:80": "engine.example:80",
	} {
		if got := reachable(listen); got != want {
			t.Errorf("%s is shown as %s, not %s", listen, got, want)
		}
	}
}
