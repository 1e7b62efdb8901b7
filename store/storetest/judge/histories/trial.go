package histories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// A Trial is how histories of a store are recorded and judged. The zero Trial
// is ready.
type Trial struct {
	// Judge decides.
	Judge
	// Seed decides the order of calls and of faults, as far as a program can
	// decide it. Zero draws one, which [Tally.Seed] contains.
	Seed uint64
	// Writes is how many writes a history without faults has at least. The
	// default is 40.
	Writes int
	// Patience bounds each wait. The default is a minute; a passing trial never
	// waits that long.
	Patience time.Duration
}

func (t Trial) withDefaults() Trial {
	if t.Seed == 0 {
		t.Seed = rand.Uint64()
	}
	if t.Writes <= 0 {
		t.Writes = 40
	}
	if t.Patience <= 0 {
		t.Patience = time.Minute
	}
	return t
}

// A Tally is what a trial consisted of.
type Tally struct {
	// Seed is the first history's. The next has the next.
	Seed uint64
	// Histories is how many were judged.
	Histories int
	// Writes is how many writes were sent, and the next are how they ended.
	Writes, Acknowledged, Conflicts, Unknown, WithoutEffect int
	// Async is how many of the writes were asynchronous: see
	// [store.AsyncWriter].
	Async int
	// Faults is how often each fault happened, by its name.
	Faults map[string]int
}

// String is the tally in one line, with the seed.
func (c Tally) String() string {
	faults := ""
	if len(c.Faults) > 0 {
		faults = fmt.Sprintf("; faults: %v", c.Faults)
	}
	async := ""
	if c.Async > 0 {
		async = fmt.Sprintf(" (%d asynchronous)", c.Async)
	}
	return fmt.Sprintf("%d histories from seed %d, %d writes%s: %d acknowledged, %d conflicts, %d unknown, %d without effect%s",
		c.Histories, c.Seed, c.Writes, async, c.Acknowledged, c.Conflicts, c.Unknown, c.WithoutEffect, faults)
}

// of returns the tally with what the history has come to.
func (c Tally) of(h *History) Tally {
	c.Writes = h.Count()
	c.Acknowledged, c.Conflicts = h.Count(store.OK), h.Count(store.Conflict)
	c.Unknown, c.WithoutEffect = h.Count(store.Unknown), h.Count(store.Transient, store.Permanent)
	for _, o := range h.Ops() {
		if o.Async {
			c.Async++
		}
	}
	return c
}

func (c Tally) plus(other Tally) Tally {
	c.Histories++
	c.Writes += other.Writes
	c.Acknowledged += other.Acknowledged
	c.Conflicts += other.Conflicts
	c.Unknown += other.Unknown
	c.WithoutEffect += other.WithoutEffect
	c.Async += other.Async
	return c
}

// WithoutFaults records and judges n histories, one at a time for each side,
// and each over two separate keys. The stores of a side, two at least, contend
// with each other; they share registers, and so may the sides.
//
// An error reports every history that the store could not have produced, and a
// trial that shows too little: without faults less than one write in a hundred
// may be of unknown outcome, and there are conflicts.
func (t Trial) WithoutFaults(ctx context.Context, n int, sides ...[]store.Store) (Tally, error) {
	t = t.withDefaults()
	total := Tally{Seed: t.Seed}
	var mu sync.Mutex
	var faults []error
	var taken atomic.Int64
	var all sync.WaitGroup
	for _, stores := range sides {
		all.Go(func() {
			for i := taken.Add(1); i <= int64(n); i = taken.Add(1) {
				h, err := t.contend(ctx, stores, t.Seed+uint64(i-1))
				if err == nil {
					err = t.verdict(h)
				}
				mu.Lock()
				total = total.plus(Tally{}.of(h))
				if err != nil {
					faults = append(faults, fmt.Errorf("history of seed %d: %w", t.Seed+uint64(i-1), err))
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if total.Unknown*100 >= total.Writes || total.Acknowledged == 0 || total.Conflicts == 0 {
		faults = append(faults, fmt.Errorf("without faults these show too little: %v", total))
	}
	return total, errors.Join(faults...)
}

// contend records a history of at least so many writes over two keys. A call
// has all the time that the trial has: where nothing is broken, only a stalled
// machine ends calls early, which shows nothing of the store.
func (t Trial) contend(ctx context.Context, stores []store.Store, seed uint64) (*History, error) {
	keys := []string{fmt.Sprintf("a%d", seed), fmt.Sprintf("b%d", seed)}
	h, clients, end := traffic(ctx, stores, keys, seed, t.Patience)
	for limit := time.Now().Add(t.Patience); h.Count() < t.Writes && time.Now().Before(limit) && ctx.Err() == nil; {
		<-time.After(2 * time.Millisecond)
	}
	end()
	return h, t.settle(ctx, clients[0], keys)
}

// traffic has a client on each store write the keys, with so much time for each
// call, until end is called.
func traffic(ctx context.Context, stores []store.Store, keys []string, seed uint64, each time.Duration) (h *History, clients []*Client, end func()) {
	h = New()
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i, st := range stores {
		clients = append(clients, h.Client(i, st))
		if _, ok := st.(store.AsyncWriter); ok {
			all.Go(func() { watch(ctx, st, keys) })
		}
	}
	all.Go(func() { contend(ctx, clients, keys, seed, each) })
	return h, clients, func() { stop(); all.Wait() }
}

// watch watches the keys until ctx is done, as an election does: a store may
// write otherwise while nobody watches.
func watch(ctx context.Context, st store.Store, keys []string) {
	w, ok := st.(store.Watcher)
	for ok && ctx.Err() == nil {
		stop, err := w.Watch(ctx, keys, func(store.Entry) {})
		if err == nil {
			<-ctx.Done()
			stop()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (t Trial) settle(ctx context.Context, c *Client, keys []string) error {
	ctx, cancel := context.WithTimeout(ctx, t.Patience)
	defer cancel()
	if err := Settle(ctx, c, keys); err != nil {
		return fmt.Errorf("the keys do not settle: %w", err)
	}
	return nil
}

// verdict judges the history, and prints an impossible one, if a person can
// still read it.
func (t Trial) verdict(h *History) error {
	ops := h.Ops()
	err := t.Verdict(ops)
	if err == nil || len(ops) > 1000 {
		return err
	}
	var calls strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&calls, "\n%v", o)
	}
	return fmt.Errorf("%w%s", err, &calls)
}

// A Fault goes wrong for a while, and is over when Happen returns. It draws its
// random parts from r.
type Fault struct {
	// Name is for the report.
	Name string
	// Happen does it, and undoes it.
	Happen func(r *rand.Rand) error
}

// A Faulted is what a history with faults is recorded of.
type Faulted struct {
	// Stores share registers. The last one settles them when the faults are
	// over.
	Stores []store.Store
	// Faults happen one after the other, in an order of the seed.
	Faults []Fault
	// Rounds is how often each fault happens at least. The default is once.
	Rounds int
	// Keys is how many registers are written. The default is 3. With more of
	// them each has fewer writes of unknown outcome. A write that was read may
	// be anywhere in its register's order before that.
	Keys int
	// Enough returns what the history still lacks, which another round may
	// bring. Nil asks for nothing more. After three times the trial's patience
	// it is an error of the trial.
	Enough func(Tally) error
}

// resumed is how many writes have to be acknowledged between two faults: the
// next is to meet some.
const resumed = 10

// WithFaults records and judges one history while faults happen.
func (t Trial) WithFaults(ctx context.Context, f Faulted) (Tally, error) {
	t = t.withDefaults()
	tally := Tally{Seed: t.Seed, Histories: 1, Faults: map[string]int{}}
	// Each history has separate keys, so that registers may serve for several.
	keys := make([]string, cmp.Or(max(f.Keys, 0), 3))
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d.%d", i, t.Seed)
	}
	h, clients, end := traffic(ctx, f.Stores, keys, t.Seed, callTime)
	lacks := t.inflict(ctx, f, h, tally)
	end()
	if err := ctx.Err(); err != nil {
		return tally, err
	}
	err := t.settle(ctx, clients[len(clients)-1], keys)
	tally = tally.of(h)
	if err != nil {
		return tally, errors.Join(lacks, err)
	}
	return tally, errors.Join(lacks, t.verdict(h))
}

// inflict has the faults happen, each round in another order, until the history
// has enough. It counts them in the tally's map.
func (t Trial) inflict(ctx context.Context, f Faulted, h *History, tally Tally) error {
	r := rand.New(rand.NewPCG(t.Seed, 1))
	faults := append([]Fault(nil), f.Faults...)
	enough := f.Enough
	if enough == nil {
		enough = func(Tally) error { return nil }
	}
	limit := time.Now().Add(3 * t.Patience)
	for round := 0; ; round++ {
		lacks := enough(tally.of(h))
		if round >= max(f.Rounds, 1) && (lacks == nil || time.Now().After(limit)) {
			return lacks
		}
		r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		for _, fault := range faults {
			if err := fault.Happen(r); err != nil {
				return fmt.Errorf("%s: %w", fault.Name, err)
			}
			tally.Faults[fault.Name]++
			if err := t.resume(ctx, h); err != nil {
				return fmt.Errorf("after the fault %q: %w", fault.Name, err)
			}
		}
		if len(faults) == 0 {
			if err := t.resume(ctx, h); err != nil {
				return err
			}
		}
	}
}

// resume waits until writes are acknowledged.
func (t Trial) resume(ctx context.Context, h *History) error {
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	before := h.Count(store.OK)
	for limit := time.Now().Add(t.Patience); h.Count(store.OK) < before+resumed; {
		if time.Now().After(limit) {
			return fmt.Errorf("%d writes were acknowledged within %v, want %d", h.Count(store.OK)-before, t.Patience, resumed)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
	return nil
}
