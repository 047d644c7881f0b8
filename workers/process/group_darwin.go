package process

import "syscall"

const (
	wExited = 0x4
	wNoWait = 0x20
)

// dieWithParent does nothing: the system has no such signal.
func dieWithParent(*syscall.SysProcAttr) {}
