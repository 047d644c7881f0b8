// Package placement decides which node of a cluster should own which log. It is pure: it
// reads no clock, asks nobody and moves nothing. The caller passes the state of the nodes and
// logs to a [Planner], carries out the move that it returns, and reports the outcome.
//
// # Pinned logs
//
// A log that an operator has pinned goes to its node as soon as that is fit, whatever the
// loads, however often, and before any other. Until then it stays where it is: a pinned log
// counts in its owner's load, and is never balanced.
//
// # Balance
//
// A log costs a base, which stands for its timers, lease and streams, and its load,
// averaged over five minutes. A node's load is the sum of its logs' costs, those that can't
// be moved included. A log goes to the lightest node if
//
//	lightest + cost + slack <= owner
//
// where slack is a fifth of the mean of both nodes' loads, and at least half the base: so no
// node owns two more idle logs than another, even if some have a few events. The node that
// receives a log stays clearly lighter than the one that gives it was, and the loads must shift
// by twice the slack before the log would go back. Of the logs that may go, the heaviest node's
// come first, and of those the one that evens the two nodes best; of equal ones the cheapest,
// since a busy log is missed more while it is handed over.
//
// The slack is that of the two nodes, and not of the cluster: one flooded log raises the
// cluster's mean so much that no difference between the other nodes would be seen.
//
// At rest each node that has a log that can be moved carries at most the lightest node's
// load, plus its cheapest such log, plus the slack.
//
// # Against flapping
//
//   - Loads are averaged, so that a log that alternates between idle and flooded counts as
//     half flooded, if it does so every few minutes or faster. The price: after a flood of
//     a thousand events a second, it takes 25 minutes until less than the cost of an idle
//     log is left of it.
//   - A node takes part once it has been fit for ten seconds.
//   - A log that was moved rests for two minutes before balance moves it again.
//   - There are at most thirty balance moves in any minute, and three in a row; then one each 2.2 s.
//   - A failed move waits a second before the next try, and twice as long each time, up to
//     a minute: for a pinned log that log alone, otherwise both nodes too, since either may
//     be the reason.
//
// # What the caller knows late
//
// The caller may still see the former owner for a moment after a move. The planner
// therefore takes the new owner as such for three seconds, while that is fit. All other
// late knowledge costs a move that fails: a log is handed over by its owner alone, and its
// log decides who that is.
//
// A planner that is new, since the caller has just become the one that plans, knows no
// rests and no averages. It balances nothing for ten seconds.
//
// # What is not done here
//
// A node that isn't fit but still there, such as a full one, hands its logs on by itself.
// The logs of a node that has gone are not placed: their leases end, and whoever
// takes one owns it. [Heir] names the node that should, so that they spread over the rest.
package placement
