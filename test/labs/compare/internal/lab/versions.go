package lab

import (
	"runtime/debug"
	"strings"

	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/peer"
)

// version is that of a module in this program; empty for one that is taken from
// this repository.
func version(module string) string {
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

// storeName is the store's server, with its version.
func storeName(kind peer.Kind) string {
	if kind == peer.NATS {
		return "nats-server " + version("github.com/nats-io/nats-server/v2")
	}
	return "etcd " + version("go.etcd.io/etcd/server/v3")
}
