// Package command makes commands of requests, checked against every bound, before they
// reach the decision loop. Its errors are of type *events.Error. It is safe for concurrent
// use, but for a [Report], and does no I/O.
package command
