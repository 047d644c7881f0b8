// Package schemas holds the JSON schemas of what is said over the wire. They are
// made of the types of the packages wire and events (see internal/schemas).
package schemas

import (
	_ "embed"
	"encoding/json"
	"sync"
)

//go:embed v1/types.json
var types []byte

// Type is what the schema of a type says of it.
type Type struct {
	Description string          `json:"description"`
	Properties  map[string]Type `json:"properties"`
}

// Types describes the types of requests and replies, by name. The map is shared:
// it must not be changed.
var Types = sync.OnceValue(func() map[string]Type {
	var doc struct {
		Defs map[string]Type `json:"$defs"`
	}
	if err := json.Unmarshal(types, &doc); err != nil {
		panic("schemas: v1/types.json can't be read: " + err.Error()) // it is part of the program, and of the tests
	}
	return doc.Defs
})
