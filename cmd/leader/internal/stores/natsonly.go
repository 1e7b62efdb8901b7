//go:build natsonly

package stores

import "github.com/seed-ff2cb582/leader/store"

// others are none: this program has the store of NATS alone.
func others() []store.Driver { return nil }

// Absent explains, in an error, why this program knows no other stores.
const Absent = "this command was built with -tags natsonly: build it without the tag for redis://, postgres:// and others"

// Quiet does nothing: the client of NATS writes nothing by itself.
func Quiet() {}
