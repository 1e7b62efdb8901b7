package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// measureExpiry lets a lease run out among few and among many candidates. It
// counts what they send until one of them leads, and how long that takes beyond
// the lease: as they are, among plain subscribers, and among candidates that
// nominate nobody, whose random delay of ten milliseconds is what nominations
// take the place of.
func measureExpiry(l *lab) error {
	sizes := []int{2, 3, 20, 200, 1000}
	if l.Quick {
		sizes = []int{2, 20}
	}
	for _, n := range sizes {
		if err := l.expiries(n, l.N(20, 3)); err != nil {
			return fmt.Errorf("%d candidates: %w", n, err)
		}
	}
	return nil
}

// expiryTTL is the lease of the leader that dies among n, and of all others. A
// thousand on one machine would be kept busy by the renewals of a shorter one.
func expiryTTL(n int) time.Duration {
	if n < 1000 {
		return time.Second
	}
	return 3 * time.Second
}

// An expiryRun is a group whose leader dies again and again.
type expiryRun struct {
	*relay
	kv     jetstream.KeyValue
	ttl    time.Duration
	claims []int
	others []int
	delays harness.Samples
	late   harness.Samples // of the delays, what passed until the claim left
}

// expiries lets the leader of a group die. The one that dies is one of the n
// candidates: n-1 are left to succeed it.
func (l *lab) expiries(n, rounds int) error {
	floor, err := l.floor(n-1, rounds)
	if err != nil {
		return err
	}
	without := &expiryRun{relay: &relay{l: l, enter: l.joinUnannounced}}
	with := &expiryRun{relay: &relay{l: l}}
	for _, r := range []*expiryRun{without, with} {
		if err := r.measure(n, rounds); err != nil {
			return err
		}
	}
	with.report(n, without, floor)
	return nil
}

func (r *expiryRun) measure(n, rounds int) (err error) {
	r.on, r.moved, r.ttl = r.l.one, make(chan struct{}, 1), expiryTTL(n)
	if r.bucket, err = r.l.bucket(r.on); err != nil {
		return err
	}
	defer r.close()
	if err := r.gather(n - 1); err != nil {
		return err
	}
	for range rounds {
		if err := r.round(); err != nil {
			return err
		}
	}
	return nil
}

// gather starts n candidates: one that leads, and then the rest, some at a
// time. They meet no contention, as in a group that grew by and by.
func (r *expiryRun) gather(n int) error {
	if err := r.add("c0", r.ttl); err != nil {
		return err
	}
	if err := r.l.Await("a leader", r.moved, r.runs[0].IsLeader); err != nil {
		return err
	}
	js, err := jetstream.New(r.conns[0])
	if err != nil {
		return err
	}
	if r.kv, err = js.KeyValue(r.l.Ctx, r.bucket); err != nil {
		return err
	}
	return harness.Each(n-1, 20, func(i int) error { return r.add(fmt.Sprint("c", i+1), r.ttl) })
}

// round gives the lead to a candidate that is dead: it has a record and no
// process. The others follow it until its lease runs out.
func (r *expiryRun) round() error {
	old, err := r.successor(&candidate{})
	if err != nil {
		return err
	}
	died, err := r.bury(old)
	if err != nil {
		return err
	}
	before, wire, err := r.sent()
	if err != nil {
		return err
	}
	next, err := r.successor(old)
	if err != nil {
		return err
	}
	after, now, err := r.sent()
	if err != nil {
		return err
	}
	claims := after.claims - before.claims
	r.claims = append(r.claims, claims)
	r.others = append(r.others, int(now.sub(wire).In)-claims-(after.renewals-before.renewals))
	r.delays = append(r.delays, next.Led().Sub(died)-r.ttl*11/10)
	if err := r.l.Await("the claim's answer", nil, func() bool { return next.Claimed().After(died) }); err != nil {
		return err
	}
	r.late = append(r.late, next.Claimed().Sub(died)-r.ttl*11/10)
	return nil
}

// successor waits until somebody leads anew, and all others follow. It looks
// now and then, and not at each event: a thousand candidates need the
// processors.
func (r *expiryRun) successor(old *candidate) (c *candidate, err error) {
	before := old.Led()
	err = r.l.Await("a successor", nil, func() bool {
		if c = r.leading(); c == nil || c == old && !old.Led().After(before) {
			return false
		}
		return !slices.ContainsFunc(r.runs, func(f *candidate) bool { return f != c && !f.Follows(c.ID()) })
	})
	return c, err
}

// bury writes the dead leader's record over that of old, and returns when it
// did: from then on its lease runs.
func (r *expiryRun) bury(old *candidate) (at time.Time, err error) {
	record, err := json.Marshal(map[string]any{
		"id": "dead", "token": nats.NewInbox(), "ttl": r.ttl.Milliseconds(), "drift": 0.1, "renewal": 1, "term": old.Term().Number,
	})
	if err != nil {
		return at, err
	}
	// A renewal may come in between.
	return at, r.l.eventually("the dead leader's record", func(ctx context.Context) error {
		e, err := r.kv.Get(ctx, "g")
		if err != nil {
			return err
		}
		at = time.Now()
		_, err = r.kv.Update(ctx, "g", record, e.Revision())
		return err
	})
}

// A sending is what candidates have sent so far, as they count it.
type sending struct{ claims, renewals int }

func (r *expiryRun) sent() (s sending, t traffic, err error) {
	for _, c := range r.runs {
		s.claims += c.Calls("acquire")
		s.renewals += c.Calls("renew")
	}
	t, err = r.l.traffic(r.on)
	return s, t, err
}

// report adds up the rounds of a group of n, beside those without nominations
// and those of plain subscribers. The targets are those of many; few candidates
// may not be slower than ten milliseconds' uniform choice would let them be.
func (r *expiryRun) report(n int, without *expiryRun, plain succession) {
	slices.Sort(r.claims)
	slices.Sort(r.others)
	count := func(what string, counts []int, v *verdict) {
		median := counts[len(counts)/2]
		r.l.report.add(figure{
			Name: fmt.Sprintf("a lease runs out among %d: %s", n, what), N: len(counts),
			Value: float64(median), P99: float64(counts[len(counts)-1]),
		}, v)
	}
	median := r.claims[len(r.claims)/2]
	slices.Sort(without.claims)
	count("claims (p99: most)", r.claims, &verdict{"p50 ≤ 10", median <= 10})
	count("claims without nominations", without.claims, nil)
	count("other requests (p99: most)", r.others, nil)
	name := fmt.Sprintf("a lease runs out among %d: ", n)
	r.l.report.durations(name+"a plain subscriber hears of a write, and writes", plain.took,
		fmt.Sprintf("mean %.1f ms, %.1f to hear", ms(mean(plain.took)), ms(mean(plain.heard))), nil)
	r.l.report.durations(name+"a leader after the lease, without nominations", without.delays,
		fmt.Sprintf("mean %.1f ms, %.1f until it claims", ms(mean(without.delays)), ms(mean(without.late))), nil)
	took := mean(r.delays)
	cost := took - mean(without.delays)
	v := &verdict{"mean ≤ 20 ms more", cost <= 20*time.Millisecond}
	if n <= 3 {
		v = &verdict{"mean ≤ 6 ms", took <= 6*time.Millisecond} // the mean of one uniform choice, and a claim
	}
	r.l.report.durations(name+"a leader after the lease", r.delays,
		fmt.Sprintf("mean %.1f ms, %.1f until it claims, %+.1f by nominations", ms(took), ms(mean(r.late)), ms(cost)), v)
}

func mean(s harness.Samples) time.Duration {
	var sum time.Duration
	for _, d := range s {
		sum += d
	}
	return sum / time.Duration(len(s))
}
