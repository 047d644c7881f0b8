package events

func (d *decider) pauseType(c PauseType) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}

func (d *decider) resumeType(c ResumeType) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}

func (d *decider) dueCircuit(c DueCircuit) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}

func (d *decider) resetCircuit(c ResetCircuit) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}
