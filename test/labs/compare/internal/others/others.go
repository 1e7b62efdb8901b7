// Package others has the libraries that this one is compared with, each by an
// adapter in its own file.
package others

import "github.com/seed-ff2cb582/leader/test/internal/measure/peer"

// Libraries returns the libraries that are compared, ours first. It is their
// one list.
func Libraries() []peer.Library { return []peer.Library{peer.Ours{}, clientgo{}, etcd{}} }
