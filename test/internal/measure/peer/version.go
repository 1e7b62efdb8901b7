package peer

import (
	"runtime/debug"
	"strings"
)

// Version is the version of a module in this program; empty for a module of
// this repository.
func Version(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module && m.Replace == nil {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return ""
}
