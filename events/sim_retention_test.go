package events

func (s *sim) retentionStep() { s.do(Due{ID: s.anID()}) }
