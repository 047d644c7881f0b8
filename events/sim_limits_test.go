package events

func (s *sim) limitsCommand() Command { return Due{ID: s.anID()} }
