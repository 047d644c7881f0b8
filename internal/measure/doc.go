// Package measure is the harness of `engine bench`, of the comparison with other queues
// (module bench) and of internal/million: items of one size, what puts them on a queue and
// counts them, and how figures are written.
//
// A measurement reads the clock of this process alone. A latency is from the time at which
// an item was sent, or was to be sent (see [OpenLoop]), to the first line of its handler.
package measure
