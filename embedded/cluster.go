package embedded

import "errors"

// checkMemory refuses a cluster in memory: a node that starts again with nothing
// would vote as if it had never voted.
func (e *Engine) checkMemory() error {
	if e.o.Memory && e.cfg.Cluster.On() {
		return errors.New("start a cluster: its nodes keep their data in folders: leave out Memory, or the cluster")
	}
	return nil
}
