package bridge_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// An HTTP worker writes output, which is read over HTTP: followed, resumed, and whole.
func TestWorkersWriteOutput(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Worker: "w1", Types: []string{"step"}, Slots: 1})
	id := e.submit(t, "step", `1`)
	it := w.one()
	write := func(offset int, b string) (sum wire.OutputSummary) {
		t.Helper()
		w.must("output", wire.WorkerOutput{Session: w.session, OutputWrite: wire.OutputWrite{ID: id, Token: it.Token, Offset: &offset, OutputBytes: wire.OutputBytesOf([]byte(b))}}, &sum)
		return sum
	}
	get := func(query string, headers ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(testContext(t), http.MethodGet, "http://"+e.HTTP()+"/api/v1/work/"+id+"/output"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := e.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	live := bufio.NewScanner(get("?follow=true").Body)
	var last string
	next := func() (name, data string) {
		t.Helper()
		for live.Scan() {
			field, value, _ := strings.Cut(live.Text(), ": ")
			switch field {
			case "id":
				last = value
			case "event":
				name = value
			case "data":
				return name, value
			}
		}
		t.Fatal("the feed has ended: ", live.Err())
		return "", ""
	}
	wants := func(event string, parts ...string) {
		t.Helper()
		name, data := next()
		if name != event {
			t.Errorf("event %s %s, want %s", name, data, event)
		}
		for _, p := range parts {
			if !strings.Contains(data, p) {
				t.Errorf("event %s %s lacks %s", name, data, p)
			}
		}
	}
	if sum := write(0, "one\n"); sum.Bytes != 4 {
		t.Errorf("%+v", sum)
	}
	wants("reset", `{"attempt":1}`)
	wants("output", `"offset":0`, `"text":"one\n"`, `"reset":true`)
	first := last
	if sum := write(0, "one\n\xff"); sum.Bytes != 5 { // half of it is there
		t.Errorf("%+v", sum)
	}
	wants("output", `"offset":4`, `"base64":"/w=="`)
	w.ok(complete(it, `1`))
	wants("end", id)

	if resp := get(""); resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	} else if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "one\n\xff" {
		t.Errorf("the output is %q, %v", b, err)
	}
	live = bufio.NewScanner(get("?follow=true", "Last-Event-ID", first).Body)
	wants("output", `"offset":4`)
	wants("end")
	if resp := get("?follow=true", "Last-Event-ID", last); resp.StatusCode != http.StatusNoContent {
		t.Errorf("with nothing left: %d", resp.StatusCode)
	}
	if resp := get("?follow=true", "Last-Event-ID", "x"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("with a bad id: %d", resp.StatusCode)
	}
	status, p, err := e.ask(testContext(t), http.MethodPost, w.path("output"), wire.WorkerOutput{Session: w.session, OutputWrite: wire.OutputWrite{ID: id, Token: it.Token}}, nil)
	if err != nil || status < 400 || p.Code != events.CodeStaleToken {
		t.Errorf("of an item that has ended: %d %s, %v", status, p.Code, err)
	}
}
