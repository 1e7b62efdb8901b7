//go:build natsonly

package announce

// openers are none: this program has the client of NATS alone.
func openers() map[string]opener { return nil }
