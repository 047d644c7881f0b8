package rest

import "github.com/streamwright/streamwright/schemas"

// describeSchemas gives the document's schemas the descriptions that the same
// types have in the schemas of the wire.
func (s *Server) describeSchemas() {
	known := schemas.Types()
	for name, schema := range s.api.OpenAPI().Components.Schemas.Map() {
		t, ok := known[name]
		if !ok {
			continue
		}
		if schema.Description == "" {
			schema.Description = t.Description
		}
		for field, p := range schema.Properties {
			if p.Description == "" {
				p.Description = t.Properties[field].Description
			}
		}
	}
}
