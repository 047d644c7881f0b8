package events

func (s *State) applyCause(ev Event, b *CauseNoted) error {
	return s.corrupt(ev, "this program does not know its kind: use a newer one")
}
