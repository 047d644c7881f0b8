// Package site makes a small static site of the documentation: one HTML page
// for each Markdown page, with the list of all pages, a table of contents, and
// links to the next and the previous page, and a search over all of them. The index, docs/README.md, decides
// which pages there are and in which order: a heading of level 2 begins a
// section, and each first link of a list item or table row names a page.
//
// The pages need nothing from another host, and no script but for playgrounds: see
// playground/README.md. They are rendered at the first request and then kept.
package site
