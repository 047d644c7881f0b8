package events

// The reasons in [Dead], but for those of an item that comes after another: see
// [UpstreamReason].
const (
	DeadExhausted    = "exhausted"     // its attempts are used up
	DeadNotRetryable = "not_retryable" // its failure was final
	DeadPoisoned     = "poisoned"      // its runs have lost too many leases
	DeadOfChild      = "child_dead"
	DeadNotSpawned   = "children_not_made"
	DeadWaitTimedOut = "wait_timed_out" // no signal came in time
)

// UpstreamReason is the reason of an item that ends because the one that it comes after has
// ended badly: as a batch with items that have failed, if that one is completed.
func UpstreamReason(up ItemState) string {
	if up == StateCompleted {
		return "upstream_failed"
	}
	return "upstream_" + up.String()
}

// DeadReasons lists the reasons in [Dead].
func DeadReasons() []string {
	return []string{
		DeadExhausted, DeadNotRetryable, DeadPoisoned, DeadOfChild, DeadNotSpawned, DeadWaitTimedOut,
		UpstreamReason(StateDead), UpstreamReason(StateCancelled), UpstreamReason(StateCompleted),
	}
}
