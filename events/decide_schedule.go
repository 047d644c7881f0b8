package events

func (d *decider) setSchedule(c SetSchedule) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}

func (d *decider) removeSchedule(c RemoveSchedule) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}

func (d *decider) fire(c Fire) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}
