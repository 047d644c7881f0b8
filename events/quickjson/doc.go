// Package quickjson is what generated JSON code stands on: a [Writer] of objects, and a
// [Reader] of the JSON that nearly all programs write. The code is made by internal/jsongen.
//
// A Writer gives the bytes that encoding/json gives, but for two things: a
// [json.RawMessage] keeps its own, and times are written in UTC. A Reader reads fields in
// any order and with blanks, each once. It gives up on what is rare or wrong, such as
// unknown fields, fields given twice, null, and numbers in other forms; the caller then
// asks encoding/json, which has the last word. What a Reader does accept, it reads as
// encoding/json does.
package quickjson
