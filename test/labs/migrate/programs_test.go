package migrate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/internal/roll"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A program is what instances ran before.
type program struct {
	start func(l *lab, name string) *roll.Instance
	// deaf: its followers do not notice that a record expired, nor a vacancy
	// that this library wrote. A deletion of the key wakes them.
	deaf bool
}

// The programs that are left. They do what the sources of the libraries do, and
// are not those, which the module proxy does not serve. Each creates a key in a
// bucket whose records expire, and replaces its own value from then on.
var programs = map[string]program{
	// github.com/ripienaar/nats-kv-leader-elect: "A leader will then regularly,
	// around 75% of TTL time, do a Update()"; its callback runs an interval
	// after it won, "this ensures that any previous leader had a chance to
	// stand down".
	"nats-kv-leader-elect": {start: func(l *lab, name string) *roll.Instance {
		return l.begin(name, func(c *candidate) { c.campaign(0) })
	}},
	// The same, for a program that polls IsLeader instead of waiting for a
	// callback: IsLeader returns true as soon as the key is created.
	"nats-kv-leader-elect, IsLeader": {start: func(l *lab, name string) *roll.Instance {
		return l.begin(name, func(c *candidate) { c.campaign(atOnce) })
	}},
	// github.com/choria-io/go-choria: the same, but the next campaign that
	// succeeds reports it, by callback and by IsLeader.
	"choria": {start: func(l *lab, name string) *roll.Instance {
		return l.begin(name, func(c *candidate) { c.campaign(1) })
	}},
	// A record with id and token, watched: followers create theirs when they
	// hear of a deletion, or find nothing. So the documentation of
	// github.com/ali-assar/NATS-Leader-Election has it.
	"json-record": {start: func(l *lab, name string) *roll.Instance {
		return l.begin(name, func(c *candidate) { c.watch(jetstream.KeyValueEntry.Operation, true) })
	}},
	// The same, but its followers take any value that they receive for a
	// leader, even the value of a deletion: the source of that library.
	"json-record, by value, looks": {start: func(l *lab, name string) *roll.Instance {
		return l.begin(name, func(c *candidate) { c.watch(byValue, true) })
	}},
	// The same, and they do not look by themselves: its source of before.
	"json-record, by value": {deaf: true, start: func(l *lab, name string) *roll.Instance {
		return l.begin(name, func(c *candidate) { c.watch(byValue, false) })
	}},
}

// byValue takes an entry for a deletion if it has no value.
func byValue(e jetstream.KeyValueEntry) jetstream.KeyValueOp {
	if len(e.Value()) == 0 {
		return jetstream.KeyValueDelete
	}
	return jetstream.KeyValuePut
}

// A candidate is an instance of such a program.
type candidate struct {
	context.Context // until it is shut down
	lab             *lab
	name            string
	kv              jetstream.KeyValue
	stints, stint   atomic.Uint64
}

func (l *lab) begin(name string, run func(*candidate)) *roll.Instance {
	l.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.Context()))
	c := &candidate{Context: ctx, lab: l, name: name}
	js := natslab.JetStream(l, l.server.Connect(l))
	natslab.Eventually(l, "the bucket is found", func(ctx context.Context) (err error) {
		c.kv, err = js.KeyValue(ctx, l.kv.Bucket())
		return err
	})
	var running sync.WaitGroup
	running.Go(func() {
		run(c)
		c.stint.Store(0) // the program has ended
	})
	i := l.Add(&roll.Instance{Name: name, Stint: c.stint.Load, Stop: func() { cancel(); running.Wait() }})
	l.Cleanup(i.Stop)
	return i
}

func (c *candidate) won() {
	c.stint.Store(c.stints.Add(1))
	c.lab.Look()
}

func (c *candidate) lost() { c.stint.Store(0) }

// sleep waits, and reports whether the program goes on.
func (c *candidate) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return c.Err() == nil
	case <-c.Done():
		return false
	}
}

// atOnce has a candidate work as soon as it has created its value.
const atOnce = -1

// campaign tries each three quarters of the bucket's TTL. A candidate works
// once it has replaced its value so often, and at the earliest an interval
// after it created it, unless that is atOnce.
func (c *candidate) campaign(updates int) {
	const interval = bucketTTL * 3 / 4
	// A campaign that is not the leader's, with a short back-off.
	for ok := true; ok; ok = c.sleep(interval / 4) {
		rev, err := c.kv.Create(c, group, []byte(c.name))
		if err != nil {
			continue
		}
		if updates == atOnce {
			c.won()
		}
		for n := 0; c.sleep(interval); n++ {
			if updates == 0 && n == 0 {
				c.won()
			}
			if rev, err = c.kv.Update(c, group, []byte(c.name), rev); err != nil {
				break
			}
			if updates > 0 && n+1 == updates {
				c.won()
			}
		}
		c.lost()
	}
}

// watch creates the record when operation returns that there is none, and
// renews it each quarter of the bucket's TTL. A candidate that looks also finds
// out that the record has expired, which no watch reports.
func (c *candidate) watch(operation func(jetstream.KeyValueEntry) jetstream.KeyValueOp, looks bool) {
	w, err := c.kv.Watch(c, group)
	if err != nil {
		return
	}
	defer w.Stop() //nolint:errcheck // its connection may be gone
	expiry := time.NewTicker(bucketTTL / 4)
	defer expiry.Stop()
	for {
		select {
		case <-c.Done():
			return
		case e := <-w.Updates():
			if e != nil && operation(e) == jetstream.KeyValuePut {
				continue // somebody leads
			}
			c.lead()
		case <-expiry.C:
			if looks && c.expired() {
				c.lead()
			}
		}
	}
}

// expired reports whether nothing is left of the record.
func (c *candidate) expired() bool {
	_, err := c.kv.Get(c, group)
	return errors.Is(err, jetstream.ErrKeyNotFound) // even if it was deleted
}

// lead creates the record and renews it for as long as it can. It has its
// working state as soon as its record is created.
func (c *candidate) lead() {
	value, err := json.Marshal(map[string]any{"id": c.name, "token": rand.Text(), "priority": 10})
	if err != nil {
		return
	}
	rev, err := c.kv.Create(c, group, value)
	if err != nil {
		return
	}
	c.won()
	for c.sleep(bucketTTL / 4) {
		if rev, err = c.kv.Update(c, group, value, rev); err != nil {
			break
		}
	}
	c.lost()
}
