package events

func (s *sim) scheduleCommand() Command { return Due{ID: s.anID()} }
