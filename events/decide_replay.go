package events

func (d *decider) replay(c Replay) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}

func (d *decider) purge(c Purge) (Decision, error) {
	return Decision{}, Refuse(CodeBadRequest, "the engine knows no command %T", c)
}
