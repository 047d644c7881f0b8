package process

import "syscall"

const (
	wExited = 0x4
	wNoWait = 0x1000000
)

// dieWithParent has the kernel kill the child when the worker dies, even by
// SIGKILL.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
