package events

func (s *State) applyRetention(ev Event) error {
	return s.corrupt(ev, "this program does not know its kind: use a newer one")
}
