package embedded

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
)

// raw sends bytes to an HTTP server and returns the status of its reply; 0 if
// it closes the connection without one.
func raw(t *testing.T, addr, text string) (status int, header http.Header, body string) {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, testTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(c, text) }() // a server that refuses early reads no further
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		if nerr, ok := err.(net.Error); ok && nerr.Timeout() {
			t.Fatalf("no reply to %.80q, and the connection stays", text)
		}
		return 0, nil, ""
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, resp.Header, string(data)
}

// What is for those who are known is shown to nobody else, however he asks.
func TestNoWayAroundTheTokens(t *testing.T) {
	text, of := tokens()
	e := mustStart(t, Options{Memory: true, NATSListen: config.Off, HTTP: "127.0.0.1:0", HTTPTokens: text})
	read := of[access.Read]
	post := func(headers, body string) string {
		return fmt.Sprintf("POST /api/v1/work HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", len(body), headers, body)
	}
	get := func(method, path string, headers ...string) string {
		return method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + strings.Join(append(headers, "Connection: close"), "\r\n") + "\r\n\r\n"
	}
	auth := func(token string) string { return "Authorization: Bearer " + token }
	item := `{"type":"email"}`
	for name, tc := range map[string]struct {
		send string
		want []int
	}{
		"a HEAD":                      {get("HEAD", "/metrics"), []int{401}},
		"an OPTIONS":                  {get("OPTIONS", "/api/v1/work"), []int{405}},
		"a TRACE":                     {get("TRACE", "/api/v1/work", auth(read)), []int{405}},
		"a CONNECT":                   {"CONNECT /metrics HTTP/1.1\r\nHost: x\r\n\r\n", []int{404, 405, 400}},
		"a token in the URL":          {get("GET", "/metrics?token="+read+"&access_token="+read), []int{401}},
		"a token as basic login":      {get("GET", "/metrics", "Authorization: Basic "+read), []int{401}},
		"a login in the URL":          {get("GET", "http://x:"+read+"@x/metrics"), []int{401}},
		"two tokens, the wrong first": {get("GET", "/metrics", auth("wrong"), auth(read)), []int{401}},
		"a cookie":                    {get("GET", "/metrics", "Cookie: token="+read), []int{401}},
		"a proxy's word":              {get("GET", "/metrics", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-User: read", "X-Real-IP: 127.0.0.1", "Forwarded: for=127.0.0.1"), []int{401}},
		"a method in a header":        {get("GET", "/metrics", auth(of[access.Submit]), "X-HTTP-Method-Override: POST"), []int{403}},
		"a websocket":                 {get("GET", "/api/v1/events", "Upgrade: websocket", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13"), []int{401}},
		"two slashes":                 {get("GET", "//metrics"), []int{301, 307, 308, 404}},
		"dots":                        {get("GET", "/healthz/../metrics"), []int{301, 307, 308, 404}},
		"encoded dots":                {get("GET", "/healthz/%2e%2e/metrics"), []int{301, 307, 308, 404}},
		"encoded slash":               {get("GET", "/%2fmetrics"), []int{301, 307, 308, 404}},
		"encoded letters":             {get("GET", "/%6detrics"), []int{401}},
		"capitals":                    {get("GET", "/METRICS"), []int{404}},
		"a dot at the end":            {get("GET", "/api/v1/work/."), []int{301, 307, 308, 404}},
		"a zero":                      {get("GET", "/metrics%00"), []int{404, 400}},
		"another origin":              {post(auth(of[access.Submit])+"\r\nOrigin: http://evil.example\r\n", item), []int{403}},
		"another site":                {post(auth(of[access.Submit])+"\r\nSec-Fetch-Site: cross-site\r\n", item), []int{403}},
		"a role too few":              {post(auth(read)+"\r\n", item), []int{403}},
		"both lengths":                {"POST /api/v1/work HTTP/1.1\r\nHost: x\r\n" + auth(of[access.Submit]) + "\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", []int{400}},
		"two hosts":                   {"GET /metrics HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", []int{400}},
		"HTTP/1.0":                    {"GET /metrics HTTP/1.0\r\n\r\n", []int{401}},
		"gigantic headers":            {get("GET", "/metrics", auth(read), "X-Filler: "+strings.Repeat("x", 128<<10)), []int{431}},
		"a long token":                {get("GET", "/metrics", auth(strings.Repeat("x", 32<<10))), []int{401}},
	} {
		status, header, body := raw(t, e.HTTP(), tc.send)
		ok := false
		for _, w := range tc.want {
			ok = ok || status == w
		}
		if !ok {
			t.Errorf("%s: %d %.200s, want %v", name, status, body, tc.want)
		}
		if strings.Contains(body, read) || strings.Contains(body, "streamwright_") {
			t.Errorf("%s shows %.200s", name, body)
		}
		for key := range header {
			if strings.HasPrefix(key, "Access-Control-") {
				t.Errorf("%s: the reply has %s", name, key)
			}
		}
	}
}

// A body that unfolds to far more than it is, or is nested beyond reason, is
// refused for what it is.
func TestBombs(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true, HTTP: "127.0.0.1:0"})
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 256 {
		if _, err := z.Write(bytes.Repeat([]byte{' '}, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, tc := range map[string]struct {
		header, body string
		want         int
	}{
		"gzip":                   {"Content-Encoding: gzip\r\n", packed.String(), 400},
		"nested params":          {"", `{"type":"email","params":` + deep(9000) + `}`, 400},
		"nested beyond a reader": {"", `{"type":"email","params":` + deep(1<<20) + `}`, 400},
		"a nested unknown field": {"", `{"type":"email","extra":` + deep(9000) + `}`, 400},
		"an endless key":         {"", `{"` + strings.Repeat("k", 4<<20) + `":1}`, 400},
		"too large":              {"", `{"type":"email","params":"` + strings.Repeat("x", 9<<20) + `"}`, 413},
	} {
		status, _, body := raw(t, e.HTTP(), fmt.Sprintf("POST /api/v1/work HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", tc.header, len(tc.body), tc.body))
		if status != tc.want {
			t.Errorf("%s: %d %.200s, want %d", name, status, body, tc.want)
		}
		if len(body) > 4096 {
			t.Errorf("%s: the refusal has %d bytes", name, len(body))
		}
	}
}
