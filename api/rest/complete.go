package rest

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/streamwright/streamwright/access"
)

// complete puts into the document what operations lack that were registered
// with huma itself.
func (s *Server) complete() {
	doc := s.api.OpenAPI()
	for path := range doc.Paths {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			op := s.operationOf(method, path)
			if op == nil {
				continue
			}
			delete(op.Responses, "422") // huma's own: here it is 400
			for _, tag := range op.Tags {
				if !slices.ContainsFunc(doc.Tags, func(t *huma.Tag) bool { return t.Name == tag }) {
					doc.Tags = append(doc.Tags, &huma.Tag{Name: tag})
				}
			}
			if _, said := op.Extensions["x-role"]; said {
				continue
			}
			needed, ok := op.Metadata[needsKey].(access.Roles)
			if !ok {
				needed = access.RolesOf(access.Operate) // see authorize
			}
			if op.Extensions == nil {
				op.Extensions = map[string]any{}
			}
			op.Extensions["x-role"] = strings.Split(needed.String(), ",")
			op.Security = []map[string][]string{{"bearer": {}}, {"mutualTLS": {}}}
		}
	}
}

// openReplies says in a document that what is only ever replied may have
// further fields: a later engine may say more. Requests may not.
func openReplies(doc []byte) ([]byte, error) {
	var d map[string]any
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, err
	}
	components, _ := d["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	asked := map[string]bool{}
	eachKey(d["paths"], "requestBody", func(body any) { reach(schemas, body, asked) })
	for name, schema := range schemas {
		if s, ok := schema.(map[string]any); ok && !asked[name] && s["additionalProperties"] == false {
			delete(s, "additionalProperties")
		}
	}
	return json.Marshal(d)
}

// eachKey calls fn with what stands under a key, wherever it is.
func eachKey(v any, key string, fn func(any)) {
	switch v := v.(type) {
	case map[string]any:
		for k, below := range v {
			if k == key {
				fn(below)
			}
			eachKey(below, key, fn)
		}
	case []any:
		for _, below := range v {
			eachKey(below, key, fn)
		}
	}
}

// reach notes the schemas that something refers to, directly or through others.
func reach(schemas map[string]any, v any, seen map[string]bool) {
	eachKey(v, "$ref", func(ref any) {
		text, _ := ref.(string)
		name := strings.TrimPrefix(text, schemaPrefix)
		if !seen[name] {
			seen[name] = true
			reach(schemas, schemas[name], seen)
		}
	})
}
