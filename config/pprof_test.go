package config

import (
	"strings"
	"testing"
)

func TestPProfIsForThisMachineAlone(t *testing.T) {
	for addr, ok := range map[string]bool{
		"off": true, "": true, "127.0.0.1:0": true, "localhost:6060": true, "[::1]:6060": true, "127.9.9.9:6060": true,
		"0.0.0.0:6060": false, ":6060": false, "[::]:6060": false, "192.0.2.1:6060": false, "example.com:6060": false, "localhost.example.com:6060": false, "127.0.0.1": false,
	} {
		c := Config{Server: Server{PProf: addr}}.WithDefaults()
		err := c.Validate()
		if (err == nil) != ok {
			t.Errorf("%q: %v", addr, err)
		}
		if !ok && !strings.Contains(err.Error(), "server.pprof") {
			t.Errorf("%q: %v does not name the setting", addr, err)
		}
	}
}
