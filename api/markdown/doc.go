// Package markdown parses Markdown into a small tree that a page can build
// elements from, with no HTML text in between.
//
// [Nodes] reads CommonMark with tables, strikethrough and bare links. The tree has
// only the tags of [Node]; what has none is text: raw HTML stays as it is written,
// an image is a link with its alt text. A link to anything but http, https and
// mailto keeps its text and loses its address. A list is numbered from 1, and the
// alignment of a table's columns is lost.
//
// # Bounds
//
// A tree has MaxNodes nodes, and a few more to close those that are open then. Its
// elements are MaxDepth deep, and those of a table's frame three more. What is beyond
// is plain text. A table that would have more than MaxNodes cells stays a paragraph:
// the parser fills up rows that lack cells, so that 16 KiB of text could make millions
// of them.
//
// The text itself is not bounded here: callers limit it. The worst texts of 16 KiB
// that are known take about a tenth of a second.
package markdown
