package migrate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/internal/roll"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const (
	bucketTTL = 2 * time.Second // of the buckets that the other programs ask for
	lease     = time.Second     // of this library's instances
	group     = "group"
)

// A lab is one key under load.
type lab struct {
	*testing.T
	*roll.Judge

	server *natslab.Server
	kv     jetstream.KeyValue
	paths  map[string]*natslab.Relay // to the server, by name of an instance of this library
}

// TestRolls rolls each program to this library and back, twice, and fails if
// two worked at one instant. docs/guides/migrating/ttl-bucket.md contains its output.
func TestRolls(t *testing.T) {
	t.Parallel()
	server := natslab.Start(t)
	for name, old := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := server.Connect(t)
			l := &lab{
				T: t, Judge: roll.Keep(t), server: server, paths: map[string]*natslab.Relay{},
				kv: natslab.KV(t, nc, jetstream.KeyValueConfig{Bucket: strings.Map(plain, name), TTL: bucketTTL}),
			}
			l.load(nc)
			l.toAndFro(old)
		})
	}
}

func (l *lab) toAndFro(before program) {
	old := func(name string) *roll.Instance { return before.start(l, name) }
	theirs := []*roll.Instance{old("a"), old("b"), old("c")}
	l.Await("the other program leads", theirs...)
	l.Idle()

	ours := l.Replace(theirs, l.ours, roll.Hooks{Mixed: func() { l.renewed(11 * (bucketTTL + lease) / 10) }})
	l.Await("ours leads when the record is over", ours...)
	waited := l.Idle()

	theirs = l.Replace(ours, old, roll.Hooks{Mixed: func() { l.renewed(bucketTTL) }, Stopped: func() { l.wake(before) }})
	l.Await("the other program leads again", theirs...)
	back := l.Idle()

	ours = l.Replace(theirs, l.ours, roll.Hooks{Stopped: l.vacate})
	l.Await("ours leads by the vacancy", ours...)
	vacated := l.Idle()
	l.Logf("nobody led for %v to ours, %v with leader vacate, %v back; two led for 0 s", waited, vacated, back)

	if !before.deaf {
		l.cutOff(ours, old)
		l.Logf("nobody led for %v when our leader was cut off and the other program took over", l.Idle())
	}
}

// renewed waits until the leader has led for this long, by the record's
// renewals, and so candidates that ignore renewals would have succeeded it.
func (l *lab) renewed(d time.Duration) {
	var first time.Time
	natslab.Eventually(l, "the leader renews", func(ctx context.Context) error {
		e, err := l.kv.Get(ctx, group)
		switch {
		case err != nil:
			return err
		case first.IsZero():
			first = e.Created()
		case e.Created().Sub(first) > d:
			return nil
		}
		return errors.New("not for long enough")
	})
}

// cutOff takes the network from our leader, for which instances of the other
// program wait.
func (l *lab) cutOff(ours []*roll.Instance, old func(string) *roll.Instance) {
	leads := l.Await("ours leads", ours...)
	var theirs []*roll.Instance
	var path *natslab.Relay
	for _, i := range ours {
		if i == leads {
			path = l.paths[i.Name]
			continue
		}
		i.Stop()
		theirs = append(theirs, old(i.Name))
	}
	path.Hold(natslab.ToServer, natslab.ToClient)
	l.Await("the other program leads after our leader was cut off", theirs...)
	path.Resume()
}

// ours starts an instance that elects by this library, on the same key.
func (l *lab) ours(name string) *roll.Instance {
	path := natslab.NewRelay(l, l.server.Addr())
	nc := natslab.Connect(l, path.URL())
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: l.kv.Bucket(), Group: group, InstanceID: name, TTL: lease, HeartbeatInterval: lease / 4,
		Hooks: leader.Hooks{Transition: func(leader.Transition) { l.Look() }},
	})
	if err != nil {
		l.Fatal(err)
	}
	i := l.Ours(e, name)
	l.paths[i.Name] = path
	return i
}

// vacate is what an operator does when the last of the others has ended.
func (l *lab) vacate() {
	control, err := leader.NewControl(l.server.Connect(l), l.kv.Bucket(), "operator")
	if err != nil {
		l.Fatal(err)
	}
	defer control.Close()
	_, err = control.Vacate(natslab.Within(l), leader.VacateRequest{Group: group, Force: true, Why: "moved"})
	// Where the machine stalled, the record has expired meanwhile, and ours may
	// have claimed it.
	if err != nil && !errors.Is(err, leader.ErrNoLeader) && !errors.Is(err, leader.ErrLed) {
		l.Fatal(err)
	}
}

// wake does what an operator does when the last instance of this library has
// ended.
func (l *lab) wake(old program) {
	if !old.deaf {
		return
	}
	if err := l.kv.Delete(natslab.Within(l), group); err != nil {
		l.Fatal(err)
	}
}

// load writes other keys of the bucket meanwhile, two hundred times a second.
func (l *lab) load(nc *nats.Conn) {
	ctx, cancel := context.WithCancel(l.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = nc.Publish("$KV."+l.kv.Bucket()+".load", make([]byte, 1024)) // a closed connection ends the test anyway
			}
		}
	}()
	l.Cleanup(func() { cancel(); <-done })
}

// plain has a bucket's name hold what such names may.
func plain(r rune) rune {
	if r == ',' || r == ' ' {
		return '_'
	}
	return r
}
