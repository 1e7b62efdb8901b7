package sources

import (
	"time"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
)

// Times of consumers.
const (
	// heartbeat is how often the server reports that an idle consumer exists.
	// It sends no heartbeat while it delivers records: most leaders renew more
	// often than that, so that consumers which bring renewals have no
	// heartbeats.
	heartbeat = 2 * time.Second
	// maxSilence is when a consumer may be lost. Then the server is asked once
	// more. Messages that this process was too slow to read arrive before that
	// answer. A consumer that is silent even then is lost.
	maxSilence = 5 * heartbeat / 2
	// maxDebt is for how long a consumer may owe a write that a read has shown.
	maxDebt = time.Second
	// renameEvery is how often the server gets the keys that came and went.
	renameEvery = 100 * time.Millisecond
)

// A consumption is the state of a source's consumer: whether it exists, which
// messages it has delivered, and whether it may be lost.
type consumption struct {
	name     string    // of the consumer
	round    uint64    // number of the consumer
	standing bool      // it was made, and is heard
	making   bool      // it is being made
	renaming bool      // the update of its keys is under way
	probing  bool      // it is silent, and an answer of the server is awaited
	delivery uint64    // number of its last message
	present  uint64    // number of the message that completes the current state, once the consumer exists
	caughtUp bool      // the current state is complete
	heardAt  time.Time // when it was last heard
	owesFrom time.Time // when a read showed a write that it has yet to bring; zero: none
	nextTry  time.Time
	failures int // to make it, in a row
}

// A step is what is to be done about a consumer.
type step uint8

const (
	wait   step = iota
	create      // there is none
	rename      // the server is to get other keys
	probe       // it may be lost: an answer of the server is to show that
	giveUp      // it is lost
)

// next returns what is to be done about the consumer now. For wait, it also
// returns until when, or zero if something else ends the wait. Changed means
// that the server does not have the wanted keys yet.
func (c *consumption) next(now time.Time, changed bool) (what step, until time.Time) {
	switch {
	case c.making:
		return wait, time.Time{}
	case !c.standing && now.Before(c.nextTry):
		return wait, c.nextTry
	case !c.standing:
		return create, time.Time{}
	case !changed || !c.caughtUp || c.renaming:
		return c.health(now)
	case !now.Before(c.nextTry):
		return rename, time.Time{}
	}
	what, until = c.health(now)
	if what == wait && (until.IsZero() || c.nextTry.Before(until)) {
		until = c.nextTry
	}
	return what, until
}

// health is next for a consumer that exists, and whose keys are known or have
// to wait.
func (c *consumption) health(now time.Time) (what step, until time.Time) {
	silent, owes := c.heardAt.Add(maxSilence), c.owesFrom.Add(maxDebt)
	switch {
	case c.probing || c.renaming: // which has a deadline
		return wait, time.Time{}
	case !c.owesFrom.IsZero() && now.After(owes):
		return giveUp, time.Time{}
	case now.After(silent):
		return probe, time.Time{}
	case !c.owesFrom.IsZero():
		return wait, owes.Add(time.Millisecond)
	default:
		return wait, silent.Add(time.Millisecond)
	}
}

// begin notes that another consumer is being made, which delivers from its
// first message on.
func (c *consumption) begin(name string, round uint64) {
	c.name, c.round = name, round
	c.making, c.delivery, c.caughtUp = true, 0, false
}

// stand notes that the consumer was made, and how many messages it has
// delivered when the current state is complete.
func (c *consumption) stand(present uint64, now time.Time) {
	c.making, c.standing, c.failures = false, true, 0
	c.heardAt, c.nextTry, c.present = now, now.Add(renameEvery), present
}

// deliver notes a message by its number, and reports whether it is the next. If
// not, one went astray.
func (c *consumption) deliver(number uint64) bool {
	if number != c.delivery+1 {
		return false
	}
	c.delivery++
	c.owesFrom = time.Time{}
	return true
}

// shown reports whether the current state is complete, when so many messages
// are still pending.
func (c *consumption) shown(pending uint64) bool {
	return pending == 0 || c.standing && c.delivery >= c.present
}

// owes notes that a read has shown a write that the consumer has not delivered.
// A message of the consumer may be on its way; if none comes, the consumer is
// lost.
func (c *consumption) owes(now time.Time) {
	if c.standing && c.owesFrom.IsZero() {
		c.owesFrom = now
	}
}

// lose gives the consumer up. Another is due at once.
func (c *consumption) lose() {
	c.standing, c.making, c.renaming, c.probing = false, false, false, false
	c.nextTry, c.owesFrom = time.Time{}, time.Time{}
}

// postpone has the next attempt wait for a backoff.
func (c *consumption) postpone(now time.Time) {
	c.making = false
	c.nextTry = now.Add(watch.RetryAfter(c.failures))
	c.failures++
}
