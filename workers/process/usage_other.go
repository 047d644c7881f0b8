//go:build !linux

package process

import "github.com/streamwright/streamwright/workers"

// usageOf returns nothing: this system does not report on a running child,
// whose usage counts once it has ended.
func usageOf(int) workers.Usage { return workers.Usage{} }
