// Package stores names the stores that the program knows besides the buckets of
// NATS.
package stores

import "github.com/seed-ff2cb582/leader/store"

// Drivers opens them by their URLs.
func Drivers() []store.Driver { return nil }
