package events

func (s *sim) replayCommand() Command { return Due{ID: s.anID()} }
