//go:build natsonly

package stores

import "github.com/seed-ff2cb582/leader/store"

// others are none: this program has the store of NATS alone.
func others() []store.Driver { return nil }

// Quiet does nothing: the client of NATS writes nothing by itself.
func Quiet() {}
