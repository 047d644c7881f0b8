// Command wasm is the playground of the documentation as WebAssembly. It gives the page
// one function, streamwrightPlayground, which begins a session and returns the function
// that executes its commands: text to JSON text. See package playground.
package main

import (
	"encoding/json"
	"syscall/js"

	"github.com/streamwright/streamwright/internal/playground"
)

func main() {
	js.Global().Set("streamwrightPlayground", js.FuncOf(begin))
	select {} // as long as the page is there
}

func begin(js.Value, []js.Value) any {
	s, err := playground.New()
	if err != nil {
		panic(err) // of an empty log
	}
	return js.FuncOf(func(_ js.Value, args []js.Value) any {
		out, err := json.Marshal(s.Do(args[0].String()))
		if err != nil {
			panic(err) // all fields are plain
		}
		return string(out)
	})
}
