package events

func (s *sim) flowCommand() Command { return Due{ID: s.anID()} }
