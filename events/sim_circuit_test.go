package events

func (s *sim) circuitCommand() Command { return Due{ID: s.anID()} }
