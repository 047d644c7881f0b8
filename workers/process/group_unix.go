//go:build linux || darwin

package process

import (
	"os/exec"
	"syscall"
	"unsafe"
)

// isolate makes the child the leader of a process group of its own.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

// terminateGroup asks everything in the child's group to end. The child is not
// yet reaped, so the group's number is still its own.
func terminateGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// killGroup kills everything in the child's group; see terminateGroup. That
// there is nothing left to kill is the usual case.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// awaitExit returns once the child has exited, and leaves it to be reaped by
// Wait. It reports whether it could.
func awaitExit(cmd *exec.Cmd) bool {
	const (
		pPID    = 1 // P_PID, the same on both systems
		siBytes = 128
	)
	var info [siBytes]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(cmd.Process.Pid),
			uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}
