package events

import (
	"strconv"
)

// appendCarried appends what json.Marshal gives for c, but for documents and
// histories, which stand in it byte for byte.
func appendCarried(b []byte, c *Carried) ([]byte, error) {
	b = strconv.AppendInt(append(b, `{"part":`...), int64(c.Part), 10)
	b = strconv.AppendInt(append(b, `,"parts":`...), int64(c.Parts), 10)
	var err error
	if c.Item != nil {
		if b, err = appendAny(b, `,"item":`, c.Item); err != nil {
			return nil, err
		}
	}
	if len(c.Keys) > 0 {
		if b, err = appendAny(b, `,"keys":`, c.Keys); err != nil {
			return nil, err
		}
	}
	if len(c.Documents) > 0 {
		b = append(b, `,"documents":[`...)
		for i, d := range c.Documents {
			kind, _ := d.Kind.MarshalText() // it never fails
			b = append(append(append(separate(b, i), `{"kind":"`...), kind...), `","data":`...)
			b = append(append(b, d.Data...), '}')
		}
		b = append(b, ']')
	}
	if len(c.Merged) > 0 {
		if b, err = appendAny(b, `,"merged":`, c.Merged); err != nil {
			return nil, err
		}
	}
	if len(c.History) > 0 {
		b = append(b, `,"history":[`...)
		for i, h := range c.History {
			b = strconv.AppendUint(append(separate(b, i), `{"seq":`...), uint64(h.Seq), 10)
			b = append(append(append(b, `,"event":`...), h.Data...), '}')
		}
		b = append(b, ']')
	}
	if c.Fold != nil {
		if b, err = appendAny(b, `,"fold":`, c.Fold); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// separate appends the comma in front of the i-th element.
func separate(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}
