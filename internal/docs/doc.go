// Package docs tests the documentation: its Go code equals the examples, its shell and
// Node code runs, the tour prints what its page shows, links lead somewhere, and the
// table of errors matches the code. It has tests only; the site made of the pages is in
// the folder below.
package docs
