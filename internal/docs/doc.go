// Package docs holds the documentation to what it says: README's code is that
// of the examples, its tour prints what README shows, links lead somewhere, and
// the table of errors is that of the code. It has tests only.
package docs
