package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A stage is the four processes, joined by loopback or by links.
type stage struct {
	ctx                         context.Context
	client, server, copy, proxy *harness.Child
	addresses                   [ways]string // as the client reaches the server
	clientUsed                  time.Duration
}

// measure lays the ways over one link, and measures them.
func measure(ctx context.Context, o options, link string) (f *figures, err error) {
	ctx, cancel := context.WithCancel(ctx) // which kills what still runs
	defer cancel()
	s := &stage{ctx: ctx}
	defer func() { err = errors.Join(err, s.end()) }()
	if link == "" {
		err = s.overLoopback(o.copy)
	} else {
		err = s.overLinks(link, o.copy)
	}
	if err != nil {
		return nil, err
	}
	f = &figures{link: link}
	if f.latency, err = s.give(job{s.addresses, 1, o.trips}); err != nil {
		return nil, err
	}
	before, err := s.used()
	if err != nil {
		return nil, err
	}
	took, err := s.give(job{s.addresses, o.size, o.rounds})
	if err != nil {
		return nil, err
	}
	between, err := s.used()
	if err != nil {
		return nil, err
	}
	// The cost of the ends shows when they alone are at work.
	if _, err = s.give(job{[ways]string{direct: s.addresses[direct]}, o.size, o.rounds}); err != nil {
		return nil, err
	}
	after, err := s.used()
	for way := range ways {
		f.rate[way] = float64(o.size) / took[way].Median().Seconds()
		used := between[way] - before[way]
		if way == direct {
			used = after[way] - between[way]
		}
		f.used[way] = time.Duration(float64(used) / (float64(o.size) * float64(o.rounds+1)) * 1e9)
	}
	return f, err
}

// start starts the process of a part, and returns the address that it states.
func (s *stage) start(c **harness.Child, args ...string) (address string, err error) {
	if *c, err = harness.StartChild(s.ctx, args...); err != nil {
		return "", err
	}
	var n note
	err = (*c).Hear(&n)
	return n.Address, err
}

func (s *stage) overLoopback(instead string) (err error) {
	a := &s.addresses
	if a[direct], err = s.start(&s.server, "-part", "server"); err != nil {
		return err
	}
	if a[copied], err = s.start(&s.copy, "-part", "copy", "-copy", instead, "-to", a[direct]); err != nil {
		return err
	}
	if a[proxied], err = s.start(&s.proxy, "-part", "proxy", "-to", a[direct]); err != nil {
		return err
	}
	_, err = s.start(&s.client, "-part", "client")
	return err
}

// The hosts, each alone, and how they are joined: the client with all others,
// and those between with the server. In link i the nearer end is 10.91.i.1, the
// farther 10.91.i.2.
func (s *stage) overLinks(rate, instead string) error {
	const listen = "0.0.0.0:7000"
	at := func(link int) string { return fmt.Sprintf("10.91.%d.2:7000", link) }
	if _, err := s.start(&s.server, "-alone", "-part", "server", "-listen", listen); err != nil {
		return err
	}
	if _, err := s.start(&s.copy, "-alone", "-part", "copy", "-copy", instead, "-listen", listen, "-to", at(3)); err != nil {
		return err
	}
	if _, err := s.start(&s.proxy, "-alone", "-part", "proxy", "-listen", listen, "-to", at(4)); err != nil {
		return err
	}
	if _, err := s.start(&s.client, "-alone", "-part", "client"); err != nil {
		return err
	}
	for i, ends := range [][2]*harness.Child{
		direct: {s.client, s.server}, copied: {s.client, s.copy}, proxied: {s.client, s.proxy},
		3: {s.copy, s.server}, 4: {s.proxy, s.server},
	} {
		if err := join(s.ctx, i, ends[0].PID(), ends[1].PID(), rate); err != nil {
			return err
		}
	}
	for way := range ways {
		s.addresses[way] = at(way)
	}
	return nil
}

// give has the client do a job.
func (s *stage) give(j job) ([ways]harness.Samples, error) {
	var n note
	err := json.NewEncoder(s.client.In).Encode(j)
	if err == nil {
		err = s.client.Hear(&n)
	}
	s.clientUsed = n.Used
	return n.Took, err
}

// used asks what the processes of each way have used of processors so far: the
// two ends of the direct one, and one between of the others.
func (s *stage) used() (all [ways]time.Duration, err error) {
	all[direct] = s.clientUsed
	for way, c := range map[int]*harness.Child{direct: s.server, copied: s.copy, proxied: s.proxy} {
		var n note
		if _, err := fmt.Fprintln(c.In); err != nil {
			return all, err
		}
		if err := c.Hear(&n); err != nil {
			return all, err
		}
		all[way] += n.Used
	}
	return all, nil
}

func (s *stage) end() (err error) {
	for _, c := range []*harness.Child{s.client, s.copy, s.proxy, s.server} {
		if c != nil {
			err = errors.Join(err, c.End())
		}
	}
	return err
}
