package natsstore

import (
	"cmp"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
)

// A plan is how a bucket is watched, from the bucket's configuration.
type plan struct {
	republished string    // prefix of the subjects of republished records; empty: consumers
	created     time.Time // when the stream was made; zero if unknown
	unknown     bool      // the user may not read the bucket's configuration
	denied      error     // why the bucket is assumed to republish, if it is
	mixed       bool      // not all sources are as planned: the next audit that can replaces them
}

func (c *client) planFor(info *jetstream.StreamInfo) plan {
	c.noDirect.Store(!info.Config.AllowDirect)
	c.known.of(info.Created)
	c.mute.Store(false)
	return plan{republished: c.republished(info), created: info.Created}
}

// republished returns the prefix of the subjects on which the bucket republishes
// its records, or "" if it does not.
func (c *client) republished(info *jetstream.StreamInfo) string {
	return cmp.Or(c.opts.Republished, c.names.Republished(info.Config.RePublish))
}

// becomes reports whether the stream of the next plan is another one, and
// whether sources have to move: the bucket republishes elsewhere now, or not all
// sources were as planned.
func (p plan) becomes(next plan) (anew, moved bool) {
	return !p.created.IsZero() && !next.created.Equal(p.created), p.mixed || p.republished != next.republished
}

// auditEvery is how long the store may hear nothing new before the bucket's
// configuration is read, and how often from then on. A bucket may have been
// replaced, perhaps without republishing, while the connection was up.
const auditEvery = 30 * time.Second

// An audit schedules reads of the bucket's configuration.
type audit struct {
	at     time.Time
	asking bool
}

// due reports whether the configuration is to be read now; if so, it marks the
// read as started. Otherwise it returns when, or zero while an answer is
// awaited.
func (a *audit) due(now time.Time) (begin bool, at time.Time) {
	switch {
	case a.asking:
		return false, time.Time{}
	case now.Before(a.at):
		return false, a.at
	}
	a.asking = true
	a.at = now.Add(auditEvery)
	return true, time.Time{}
}

// answered notes that the answer has come, or never will.
func (a *audit) answered() { a.asking = false }

func (a *audit) heard(now time.Time) { a.at = now.Add(auditEvery) }

// soon has the audit come after a while, for the stream may be gone.
func (a *audit) soon(now time.Time) {
	if soon := now.Add(watch.RetryMost); a.at.After(soon) {
		a.at = soon
	}
}

// now makes the audit due at once. An earlier question will not be answered.
func (a *audit) now() { *a = audit{} }
