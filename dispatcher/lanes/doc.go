// Package lanes names the lanes in which items wait, and says who can serve them.
//
// A lane holds the items of one type that ask for the same set of capabilities. The lane
// with the empty name is the shared one: its items ask for nothing, and every worker of the
// type serves it. A worker's [Offer] covers a lane if it has all capabilities in the lane's
// name.
//
// Everything here is a value: no state, no I/O. Which lanes are open is up to
// package readyq; who offers what is in package registry.
package lanes
