// Package docs holds the documentation to what it says: its Go code is that of
// the examples, its shell and Node code runs, the tour prints what its page
// shows, links lead somewhere, and the table of errors is that of the code. It
// has tests only; the site made of the pages is in the folder below.
package docs
