//go:build !linux && !darwin

package process

import "os/exec"

// Without process groups only the child itself is ended, and at once.

func isolate(*exec.Cmd) {}

func terminateGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func killGroup(*exec.Cmd) {}

// awaitExit reports that it can't wait without reaping.
func awaitExit(*exec.Cmd) bool { return false }
