package embedded

import (
	"runtime/debug"
	"strings"
)

// Version is the version of the program. Release builds set it by the linker; else
// it is that of the module, which the Go command records: the version that "go
// install" was asked for, or the revision of the working tree. Without either it is
// "dev".
var Version = unknownVersion

const unknownVersion = "dev"

func init() { // the linker sets only what begins with a constant
	if Version == unknownVersion {
		Version = moduleVersion(debug.ReadBuildInfo())
	}
}

const module = "github.com/streamwright/streamwright"

func moduleVersion(info *debug.BuildInfo, ok bool) string {
	if ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" && m.Version != "(devel)" {
				return strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return unknownVersion
}
