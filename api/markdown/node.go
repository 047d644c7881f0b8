package markdown

import "encoding/json"

// Node is a text or an element. One of Text and Tag is set.
type Node struct {
	Text string

	// Tag is one of p, h3, h4, h5, ul, ol, li, em, strong, del, code, pre,
	// blockquote, a, br, hr, table, thead, tbody, tr, th and td. Headings of the
	// first level are h3, those of the third and below h5.
	Tag string
	// Href is the address of an a: http, https or mailto. Empty if it was another.
	Href     string
	Children []Node
}

// MarshalJSON writes a text as a string, and an element as an object.
func (n Node) MarshalJSON() ([]byte, error) {
	if n.Tag == "" {
		return json.Marshal(n.Text)
	}
	return json.Marshal(struct {
		Tag      string `json:"tag"`
		Href     string `json:"href,omitempty"`
		Children []Node `json:"children,omitempty"`
	}{n.Tag, n.Href, n.Children})
}
