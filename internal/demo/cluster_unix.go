//go:build unix

package demo

import (
	"os/exec"
	"syscall"
)

// withoutInterrupts keeps a terminal's Ctrl-C from a child: the demo ends it.
func withoutInterrupts(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
