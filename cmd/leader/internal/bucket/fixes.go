package bucket

import (
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// A weakness is a property of a bucket about which natsstore.Store.Check warns,
// and what to do about it.
type weakness struct {
	has func(c *jetstream.StreamConfig, clustered bool) bool
	fix func(c *jetstream.StreamConfig) string
	// apply does what the command of fix does; nil where none does. A test
	// holds each against the server.
	apply func(c *jetstream.StreamConfig)
}

// weaknesses are in the order of the store's warnings, which have no names to
// find them by. A test sees to it.
func weaknesses() []weakness {
	expire := func(c *jetstream.StreamConfig) { c.MaxAge = 0 }
	return []weakness{
		{
			func(c *jetstream.StreamConfig, _ bool) bool { return c.MaxAge > 0 },
			func(c *jetstream.StreamConfig) string { return edit(c, "--max-age 0s") }, expire,
		},
		{
			func(c *jetstream.StreamConfig, _ bool) bool { return c.MaxAge > 0 && c.SubjectDeleteMarkerTTL == 0 },
			func(c *jetstream.StreamConfig) string { return edit(c, "--max-age 0s") }, expire,
		},
		{
			func(c *jetstream.StreamConfig, _ bool) bool { return c.Storage == jetstream.MemoryStorage }, anew, nil,
		},
		{
			func(c *jetstream.StreamConfig, _ bool) bool { return c.PersistMode == jetstream.AsyncPersistMode }, anew, nil,
		},
		{
			func(c *jetstream.StreamConfig, clustered bool) bool { return clustered && c.Replicas < 3 },
			func(c *jetstream.StreamConfig) string { return edit(c, "--replicas 3") },
			func(c *jetstream.StreamConfig) { c.Replicas = 3 },
		},
		{
			func(c *jetstream.StreamConfig, _ bool) bool { return c.AllowRollup && !c.DenyPurge },
			func(c *jetstream.StreamConfig) string { return edit(c, "--no-allow-rollup --deny-purge") },
			func(c *jetstream.StreamConfig) { c.AllowRollup, c.DenyPurge = false, true },
		},
		{
			func(c *jetstream.StreamConfig, _ bool) bool { return !c.DenyDelete },
			func(c *jetstream.StreamConfig) string { return edit(c, "--deny-delete") },
			func(c *jetstream.StreamConfig) { c.DenyDelete = true },
		},
		{
			func(c *jetstream.StreamConfig, _ bool) bool { return !c.AllowDirect },
			func(c *jetstream.StreamConfig) string { return edit(c, "--allow-direct") },
			func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		},
		{
			func(c *jetstream.StreamConfig, _ bool) bool { return c.Discard == jetstream.DiscardOld && limited(c) },
			func(c *jetstream.StreamConfig) string { return edit(c, "--discard new") },
			func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew },
		},
		{
			func(c *jetstream.StreamConfig, _ bool) bool { return c.Discard == jetstream.DiscardNew && limited(c) },
			func(c *jetstream.StreamConfig) string { return edit(c, "--max-bytes=-1 --max-msgs=-1") },
			func(c *jetstream.StreamConfig) { c.MaxBytes, c.MaxMsgs = -1, -1 },
		},
	}
}

func limited(c *jetstream.StreamConfig) bool { return c.MaxBytes > 0 || c.MaxMsgs > 0 }

// edit is a command of the nats CLI that changes the stream.
func edit(c *jetstream.StreamConfig, flags string) string {
	return "nats stream edit " + c.Name + " " + flags
}

// anew is the remedy for what no command changes.
func anew(c *jetstream.StreamConfig) string {
	return fmt.Sprintf("stop the candidates, nats stream rm %s, leader bucket create %s, and start them", c.Name, bucketOf(c))
}

func fixesFor(c *jetstream.StreamConfig, clustered bool) (fixes []string) {
	for _, w := range weaknesses() {
		if w.has(c, clustered) {
			fixes = append(fixes, w.fix(c))
		}
	}
	return fixes
}
