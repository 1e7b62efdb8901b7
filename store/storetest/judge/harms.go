package judge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
)

// trial is how histories are recorded.
func (x *exam) trial() histories.Trial {
	return histories.Trial{
		Judge: histories.Judge{CurrentConflicts: !x.opts.StaleConflicts}, Seed: x.opts.Seed, Writes: x.opts.Writes, Patience: x.opts.Patience,
	}
}

// told logs the content and the result of a trial.
func (x *exam) told(tally histories.Tally, err error) {
	x.Helper()
	x.Log(tally)
	if err != nil {
		x.Error(err)
	}
}

func (x *exam) histories() {
	regs := x.registers()
	sides := make([][]store.Store, 4)
	for i := range sides {
		for range 3 {
			sides[i] = append(sides[i], regs.Open(x.T))
		}
	}
	n := x.opts.Histories
	if n <= 0 {
		n = 300
	}
	x.told(x.trial().WithoutFaults(x.Context(), n, sides...))
}

// ways returns relays for n clients.
func (x *exam) ways(n int) (ways []*relay.Relay) {
	for i := range n {
		if len(x.subject.Addrs) > 0 {
			ways = append(ways, relay.New(x.T, x.addr(i)))
		}
	}
	return ways
}

// clients opens n clients, by ways of their own where there are ways.
func (x *exam) clients(regs Registers, n int, ways []*relay.Relay) (clients []store.Store) {
	for i := range n {
		if len(ways) > 0 {
			clients = append(clients, regs.At(x.T, ways[i].Addr()))
		} else {
			clients = append(clients, regs.Open(x.T))
		}
	}
	return clients
}

// failOver has the ways lead to the server that takes the place of another.
func (x *exam) failOver(r *rand.Rand, ways []*relay.Relay) {
	x.subject.FailOver(r, func(addr string) {
		for _, w := range ways {
			w.Redirect(addr)
		}
	})
}

// faults records a history while faults happen. The last client's way is not
// spoiled.
func (x *exam) faults() {
	const clients = 5
	regs := x.registers()
	ways := x.ways(clients)
	var faults []histories.Fault
	if len(ways) > 0 {
		faults = spoil(ways[:clients-1])
	}
	for _, p := range x.subject.Processes {
		faults = append(faults, p.faults()...)
	}
	if x.subject.FailOver != nil {
		faults = append(faults, happening("failover", func(r *rand.Rand) { x.failOver(r, ways) }))
	}
	faults = append(faults, x.subject.Faults...)
	rounds := 2 * max(x.opts.Rounds, 1)
	spoiled := len(faults) > 0
	if !spoiled {
		if x.opts.NoInterrupt != "" {
			x.Skip(x.opts.NoInterrupt)
		}
		if regs.Interrupt == nil {
			x.Fatal("Harness.Interrupt is nil: provide it, or state in Caps.NoInterrupt why the store has none")
		}
		faults, rounds = []histories.Fault{{Name: "interruption", Happen: func(*rand.Rand) error { return regs.Interrupt() }}}, 5
	}
	tally, err := x.trial().WithFaults(x.Context(), histories.Faulted{
		Stores: x.clients(regs, clients, ways), Faults: faults, Rounds: rounds, Keys: x.opts.Keys, Enough: x.opts.Enough,
	})
	x.told(tally, err)
	if spoiled && (tally.Unknown == 0 || tally.Conflicts == 0) {
		x.Error("the faults met no write")
	}
}

// happening returns a fault that cannot fail.
func happening(name string, happen func(*rand.Rand)) histories.Fault {
	return histories.Fault{Name: name, Happen: func(r *rand.Rand) error { happen(r); return nil }}
}

// last lets a fault last, for up to so long.
func last(r *rand.Rand, most time.Duration) {
	<-time.After(time.Millisecond + time.Duration(r.Int64N(int64(most))))
}

// spoil returns the faults of a way to a server, each of which meets one of the
// ways.
func spoil(ways []*relay.Relay) []histories.Fault {
	// A client of a history gives a call up after half a second.
	const givenUp = 500 * time.Millisecond
	fault := func(name string, least, more time.Duration, begin, end func(*relay.Relay)) histories.Fault {
		return happening(name, func(r *rand.Rand) {
			w := ways[r.IntN(len(ways))]
			begin(w)
			<-time.After(least)
			last(r, more)
			end(w)
			w.Resume()
		})
	}
	resume := (*relay.Relay).Resume
	return []histories.Fault{
		fault("connections are reset", 0, time.Millisecond, (*relay.Relay).Reset, resume),
		fault("nobody can connect", 0, 100*time.Millisecond, (*relay.Relay).Cut, resume),
		fault("answers are held and lost", givenUp, 200*time.Millisecond, func(w *relay.Relay) { w.Hold(relay.ToClient) }, (*relay.Relay).Reset),
		fault("calls are held and lost", 0, 300*time.Millisecond, func(w *relay.Relay) { w.Hold(relay.ToServer) }, (*relay.Relay).Reset),
		fault("calls come late", givenUp, 200*time.Millisecond, func(w *relay.Relay) { w.Hold(relay.ToServer) }, resume),
		fault("nothing passes", 0, 800*time.Millisecond, func(w *relay.Relay) { w.Hold(relay.ToServer, relay.ToClient) }, resume),
		fault("all comes late", 0, 500*time.Millisecond, func(w *relay.Relay) { w.Delay(30*time.Millisecond, relay.ToServer, relay.ToClient) }, resume),
	}
}

// faults are the faults of a history that a process brings about. A process
// that forgets is not killed.
func (p Process) faults() (all []histories.Fault) {
	frozen, dead := 700*time.Millisecond, 100*time.Millisecond
	if p.Spare { // so long it takes the others to notice
		frozen, dead = 1500*time.Millisecond, 500*time.Millisecond
	}
	if p.Freeze != nil {
		all = append(all, happening(p.Name+" is frozen", func(r *rand.Rand) { p.Freeze(); last(r, frozen); p.Thaw() }))
	}
	if p.Kill != nil && !p.Forgets {
		all = append(all, happening(p.Name+" is killed", func(r *rand.Rand) { p.Kill(); last(r, dead); p.Run() }))
	}
	return all
}

// outlived has three candidates elect, by ways of their own, while harms befall
// the servers and the ways.
func (x *exam) outlived() {
	lease := max(x.opts.Lease, time.Second)
	regs := x.registers()
	ways := x.ways(3)
	p := elections.NewParty(x.T, lease)
	for i, s := range x.clients(regs, 3, ways) {
		p.Join(string(rune('a'+i)), s)
	}
	var harms, failover []elections.Harm
	if x.subject.FailOver != nil {
		failover = []elections.Harm{{Name: "failover", Happen: func(*elections.Party) {
			x.failOver(rand.New(rand.NewPCG(rand.Uint64(), 0)), ways)
		}}}
	}
	for _, process := range x.subject.Processes {
		harms = append(harms, process.harms()...)
	}
	harms = slices.Concat(failover, harms, failover)
	if len(ways) > 0 {
		harms = append(harms, elections.Spoiled(ways)...)
	}
	p.Outlives(max(x.opts.Rounds, 1), harms...)
}

// harms are the harms of an election that a process brings about. It is gone,
// and frozen, for longer than a lease; if another is spare there is a leader
// again meanwhile.
func (p Process) harms() (all []elections.Harm) {
	lasting, until := elections.Lasting, "nobody leads"
	if p.Spare {
		lasting, until = elections.Passing, "somebody leads"
	}
	if p.Kill != nil {
		all = append(all,
			elections.Harm{Name: p.Name + " is killed and restarted", Happen: func(*elections.Party) { p.restart() }},
			lasting(p.Name+" is killed, and restarted when "+until, p.Kill, p.Run))
	}
	for i := range all {
		all[i].Forgets, all[i].Again = p.Forgets && !p.Again, p.Again
	}
	if p.Freeze != nil {
		all = append(all, lasting(p.Name+" is frozen until "+until, p.Freeze, p.Thaw))
	}
	return all
}

func (x *exam) forgotten() {
	p, _ := x.subject.process(forgetful)
	elections.RestartThatForgets(x.T, x.addr(0), x.registers().At, p.restart, p.Again)
}

// kept kills a server, and demands of it what it acknowledged or showed before.
func (x *exam) kept() {
	p, _ := x.subject.process(durable)
	x.run("acknowledged", func(x *exam) { x.acknowledged(p) })
	x.run("read", func(x *exam) { x.shown(p) })
}

func (x *exam) acknowledged(p Process) {
	regs := x.registers()
	s := regs.Open(x.T)
	rev := uint64(0)
	for i := range 3 {
		key, value, gone := fmt.Sprint("k", i), fmt.Sprint("write ", i), fmt.Sprint("gone", i)
		rev = x.must(s, store.Write{Key: "a", Expected: rev, Value: []byte(value)})
		created := x.must(s, store.Write{Key: key, Value: []byte(value), Tombstone: true})
		deleted := uint64(0)
		if regs.Delete != nil {
			deleted = x.must(s, store.Write{Key: gone})
			if err := regs.Delete(gone); err != nil {
				x.Fatal(err)
			}
		}
		p.restart()
		e, other := x.get(s, "a"), x.get(s, key)
		if e.Revision != rev || string(e.Value) != value || other.Revision != created || !other.Tombstone {
			x.Fatalf("after kill %d: %+v and %+v; acknowledged were revisions %d and %d", i, e, other, rev, created)
		}
		if again := x.must(s, store.Write{Key: gone, Expected: x.get(s, gone).Revision}); again <= deleted {
			x.Fatalf("after kill %d: revision %d follows %d, which was deleted before", i, again, deleted)
		}
		rev = x.must(s, store.Write{Key: "a", Expected: rev, Value: []byte(value)})
	}
}

// shown kills a server while clients write and others read, and requires that
// no register has an earlier revision afterwards than a read showed before. A
// candidate whose write is of unknown outcome believes a read that shows it, so
// a shown write must not be taken back, even if no client got its
// acknowledgement.
//
// Many write at once, so that some wait for others' files to be synced: what
// they wrote must not be seen yet.
func (x *exam) shown(p Process) {
	const keys, kills = 6, 5
	regs := x.registers()
	stores := x.clients(regs, 2*keys, nil)
	var seen [keys]uint64
	for range kills {
		ctx, stop := context.WithCancel(x.Context())
		var all sync.WaitGroup
		showed := make(chan struct{}, 1) // holds a value once a read showed something
		for i := range keys {
			key := fmt.Sprint("kept", i)
			all.Go(func() { writeOn(ctx, stores[2*i], key) })
			all.Go(func() { seen[i] = max(seen[i], readOn(ctx, stores[2*i+1], key, showed)) })
		}
		<-time.After(300 * time.Millisecond) // so long the server lives at least
		select {
		case <-showed:
		case <-x.within().Done():
			x.Error("no read showed anything")
		}
		p.restart()
		stop()
		all.Wait()
		for i, s := range stores[:keys] {
			key := fmt.Sprint("kept", i)
			if e := x.get(s, key); e.Revision < seen[i] {
				x.Errorf("%s was read at revision %d, and is at %d after the server was killed", key, seen[i], e.Revision)
			}
		}
	}
}

// writeOn writes the key over and over, until a write fails. It begins once the
// server can be reached.
func writeOn(ctx context.Context, s store.Store, key string) {
	e, err := begin(ctx, s, key)
	for rev := e.Revision; err == nil && ctx.Err() == nil; {
		rev, err = s.CompareAndSwap(ctx, store.Write{Key: key, Expected: rev})
	}
}

// readOn reads the key until a read fails, and returns the last revision. It
// begins once the server can be reached, and signals when a read showed
// something.
func readOn(ctx context.Context, s store.Store, key string, showed chan<- struct{}) (last uint64) {
	e, err := begin(ctx, s, key)
	for err == nil && ctx.Err() == nil {
		if last = max(last, e.Revision); last > 0 {
			select {
			case showed <- struct{}{}:
			default:
			}
		}
		e, err = s.Get(ctx, key)
	}
	return last
}

// begin reads the key until that succeeds: a connection of before the server
// was killed may still be there.
func begin(ctx context.Context, s store.Store, key string) (e store.Entry, err error) {
	for e, err = s.Get(ctx, key); err != nil && ctx.Err() == nil; e, err = s.Get(ctx, key) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return e, errors.Join(err, ctx.Err())
}
