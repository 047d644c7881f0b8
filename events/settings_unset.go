package events

// UnsetTypeSettings says what a setting of a type does that is not set: each zero
// value that stands for a default has that default in its place. What has no
// default (a limit, a rate) stays zero.
func UnsetTypeSettings() TypeSettings {
	s := DefaultTypeSettings()
	s.DedupPolicy, s.PoisonAfter, s.PoolWeight, s.GroupBy = DedupMerge, DefaultPoisonAfter, 1, "tenant"
	s.Circuit = s.Circuit.WithDefaults()
	keep := func(state ItemState) int64 { return Retention{}.For(state).Milliseconds() }
	s.Retain = Retention{CompletedMS: keep(StateCompleted), DeadMS: keep(StateDead), CancelledMS: keep(StateCancelled), MergedMS: keep(StateMerged)}
	return s
}
