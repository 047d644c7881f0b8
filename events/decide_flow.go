package events

func (d *decider) spawn(c Spawn) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}

func (d *decider) snooze(c Snooze) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}

func (d *decider) progress(c ReportProgress) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}

func (d *decider) checkpoint(c SaveCheckpoint) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}

func (d *decider) followUp(c FollowUp) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}
