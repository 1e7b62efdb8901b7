package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/belief"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/measure/site"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// faultTTL is the lease in all trials: the shortest that every library permits.
const faultTTL = 2 * time.Second

// A fault strikes a scene in which one candidate leads and another follows, and
// returns when its effects are over or have lasted for some leases.
type fault struct {
	name   string
	strike func(*scene) error
	alone  bool // it needs a separate server
}

var faults = []fault{
	{"leader frozen (SIGSTOP) for longer than its lease", (*scene).stall, false},
	{"leader cut off (black hole)", (*scene).partition, false},
	{"server killed and restarted", (*scene).restart, true},
	{"leader's key deleted by an operator", (*scene).remove, false},
}

// measureFaults measures for how long two candidates, each in its own process
// behind its own proxy, believe that they lead.
func measureFaults(b *Bench) error {
	for i, f := range faults {
		trials, err := b.trials(f, fmt.Sprintf("fault-%d", i), b.N(6, 2))
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		b.Result.Faults = append(b.Result.Faults, figure.Fault{Name: f.name, Trials: trials})
	}
	return nil
}

// trials runs n trials, a few at a time, each in its own group.
func (b *Bench) trials(f fault, groups string, n int) ([]figure.Trial, error) {
	const atATime = 6
	results := make([]figure.Trial, n)
	err := harness.Each(n, atATime, func(i int) (err error) {
		results[i], err = b.trial(f, groups, i)
		return err
	})
	return results, err
}

// A scene is what a fault strikes.
type scene struct {
	*Bench
	number  int
	group   string
	site    *site.Site
	proxy   *natslab.Relay // of the one that leads first
	leader  *actor
	follows *actor
}

func (b *Bench) trial(f fault, groups string, i int) (t figure.Trial, err error) {
	var lab natslab.Program
	defer lab.Close()
	s := &scene{Bench: b, number: i, group: fmt.Sprintf("%s-%d", groups, i), site: b.Site}
	if f.alone {
		if s.site, err = site.Start(b.Ctx, b.Lib, 1); err != nil {
			return t, err
		}
		defer func() { err = errors.Join(err, s.site.Stop()) }()
	}
	err = lab.Run(func() error { return s.open(&lab) })
	if err == nil {
		err = f.strike(s)
	}
	open := s.two()
	samples, ended := s.close()
	if err := errors.Join(err, ended); err != nil {
		return t, err
	}
	t = judge(samples)
	t.Open = open
	t.Beliefs, err = belief.Seen(samples[0], samples[1])
	return t, err
}

// open starts the two, and waits until one leads, has done so for a while, and
// the other knows.
func (s *scene) open(lab *natslab.Program) (err error) {
	s.proxy = natslab.NewRelay(lab, s.site.Address())
	if s.leader, err = s.act(s.proxy.Addr(), s.group, "first", "second", faultTTL); err != nil {
		return err
	}
	if err := s.Await("the first to lead", nil, s.leader.works); err != nil {
		return err
	}
	behind := natslab.NewRelay(lab, s.site.Address())
	if s.follows, err = s.act(behind.Addr(), s.group, "second", "first", faultTTL); err != nil {
		return err
	}
	if err := s.Await("the second to follow", nil, s.follows.follows); err != nil {
		return err
	}
	return s.Pause(faultTTL/4 + rand.N(faultTTL/2)) // at any point between two renewals
}

// close ends the two, and returns their samples.
func (s *scene) close() (all [2][]belief.Sample, err error) {
	for i, a := range []*actor{s.leader, s.follows} {
		if a == nil {
			continue
		}
		samples, ended := a.end()
		all[i], err = samples, errors.Join(err, ended)
	}
	return all, err
}

// judge finds for how long both believed.
func judge(all [2][]belief.Sample) (t figure.Trial) {
	t.Answer = belief.Overlap(all[0], all[1], func(s belief.Sample) bool { return s.Answer })
	t.Works = belief.Overlap(all[0], all[1], func(s belief.Sample) bool { return s.Works })
	return t
}

// two reports whether both believe now.
func (s *scene) two() bool {
	if s.leader == nil || s.follows == nil {
		return false
	}
	a, b := s.leader.latest(), s.follows.latest()
	return a.Works && b.Works || a.Answer && b.Answer
}

// watch lets the time of some leases pass.
func (s *scene) watch(leases float64) error {
	return s.Pause(time.Duration(leases * float64(faultTTL)))
}

// succeeded waits until the second leads.
func (s *scene) succeeded() error { return s.Await("the second to lead", nil, s.follows.works) }

// stall freezes the leader until the other leads, and a little longer.
func (s *scene) stall() error {
	if err := s.leader.freeze(); err != nil {
		return err
	}
	if err := s.succeeded(); err != nil {
		return err
	}
	if err := s.Pause(rand.N(faultTTL / 2)); err != nil {
		return err
	}
	if err := s.leader.thaw(); err != nil {
		return err
	}
	return s.watch(2)
}

// partition cuts the leader off until the other has led for a while.
func (s *scene) partition() error {
	s.proxy.Hold(natslab.ToServer, natslab.ToClient)
	if err := s.succeeded(); err != nil {
		return err
	}
	if err := s.watch(1.5); err != nil {
		return err
	}
	s.proxy.Resume()
	return s.watch(1.5)
}

// restart kills the server for less than a lease, or for more.
func (s *scene) restart() error {
	s.site.Kill()
	if err := s.watch([]float64{0.3, 0.6, 1.2}[s.number%3]); err != nil {
		return err
	}
	if err := s.site.Run(s.Ctx); err != nil {
		return err
	}
	if err := s.watch(2); err != nil { // the former leader may still believe, though nobody could confirm it
		return err
	}
	if err := s.Await("somebody to lead", nil, func() bool { return s.leader.works() || s.follows.works() }); err != nil {
		return err
	}
	return s.watch(1)
}

// remove deletes the key.
func (s *scene) remove() error {
	ctx, cancel := context.WithTimeout(s.Ctx, harness.Patience)
	defer cancel()
	if err := s.site.Delete(ctx, s.group); err != nil {
		return err
	}
	return s.watch(3)
}
