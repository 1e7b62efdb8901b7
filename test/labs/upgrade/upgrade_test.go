//go:build unix

package upgrade_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestUpgrade(t *testing.T) {
	newer := buildNew(t)
	t.Run("TwoProgramsAreSeen", func(t *testing.T) { seeTwo(newLab(t, newer, newer, newer)) })
	older := buildOld(t)
	for name, order := range map[string][2]version{
		"HostsAreUpgraded": {older, newer}, "HostsAreRolledBack": {newer, older},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, older, newer, order[0])
			l.mixture()
			for _, h := range l.hosts {
				l.replace(h, order[1])
				l.mixture()
			}
			l.finish()
		})
	}
}

// seeTwo shows that the lab sees two programs at one instant. It takes the
// programs of two groups, each with a leader, for programs of one group.
func seeTwo(l *lab) {
	l.newHost("other", "d", l.new, "--ttl", "1s")
	others := func() []stint { return stintsIn(l, l.dir, "other") }
	natslab.Await(natslab.Within(l), l, "the other group's program runs", nil, func() bool {
		return slices.ContainsFunc(others(), func(s stint) bool { return s.signs >= enough })
	}, func() string { return "" })
	l.led(0)
	found, both := judge(slices.Concat(stintsIn(l, l.dir, group), others()), nil)
	if len(found) == 0 || both < enough*beat/2 {
		l.Errorf("%q, %v, want at least %v", found, both, enough*beat/2)
	}
}

// mixture performs all acts with the versions that the hosts run now.
func (l *lab) mixture() {
	l.Helper()
	var names []string
	var present []version
	for _, h := range l.hosts {
		names = append(names, h.version.name)
		if !slices.Contains(present, h.version) {
			present = append(present, h.version)
		}
	}
	l.Logf("hosts: %v", names)
	for _, v := range present {
		l.handOver(l.lead(v))
		l.crash(l.lead(v))
		for _, by := range []version{l.old, l.new} {
			l.stepDown(v, by)
		}
	}
	l.pause(l.old, l.new)
	l.pause(l.new, l.old)
	l.once()
	l.sameHistory()
}

// handOver shuts the host that leads down.
func (l *lab) handOver(s stint) {
	l.Helper()
	h := l.host(s.id)
	h.stop()
	l.acts = append(l.acts, act{"handover", s})
	l.led(s.term + 1)
	h.start()
	l.over(s)
}

// crash kills leader run where it leads.
func (l *lab) crash(s stint) {
	l.Helper()
	h := l.host(s.id)
	h.kill()
	l.acts = append(l.acts, act{"crash", s})
	l.led(s.term + 1)
	h.start()
	l.over(s)
}

// stepDown has a leader of a version step down by the command of another.
func (l *lab) stepDown(v, by version) {
	l.Helper()
	for {
		if s := l.lead(v); l.request(by, "step-down", group) {
			l.acts = append(l.acts, act{"step-down", s})
			l.over(s)
			return
		}
	}
}

// pause pauses the group by the command of one version, starts the host that led
// again, and resumes the group by the command of another version.
func (l *lab) pause(by, then version) {
	l.Helper()
	s := l.led(0)
	for !l.request(by, "pause", group) {
	}
	pause := overlap.Span{Who: "the pause after " + s.Who, From: overlap.Now()}
	h := l.host(l.latest().id)
	h.stop()
	h.start()
	l.stand()
	natslab.Eventually(l, "readers of both versions name the pause", func(ctx context.Context) error {
		return l.both(func(v version) error {
			var listed []place
			if err := l.read(ctx, &listed, v, "ls", group); err != nil {
				return err
			}
			if len(listed) != 1 || listed[0].Leader != "" || !listed[0].Paused {
				return fmt.Errorf("leader ls (%s): %+v", v.name, listed)
			}
			return nil
		})
	})
	pause.To = overlap.Now()
	l.pauses = append(l.pauses, pause)
	for !l.request(then, "resume", group) {
	}
	l.acts = append(l.acts, act{"pause", s})
	l.over(s)
}

// once has the hosts run a job in a period that begins now.
//
// The periods of --once are counted from 1970. If --every is the whole time
// from 1970 until a begin, then a period begins there, and ends long after the
// lab. A longer --every begins its period later, so each act has its own
// period.
func (l *lab) once() {
	l.Helper()
	l.begins = l.begins.Add(time.Second)
	every := fmt.Sprintf("%dms", l.begins.UnixMilli())
	before := len(stintsIn(l, l.dir, job))
	for i, want := range []int{1, 0} { // the second time nobody runs it
		var runs []*host
		for _, h := range l.hosts {
			r := &host{
				l: l, group: job, id: fmt.Sprintf("%s.%d", h.id, i), version: h.version,
				// A lease that outlasts a stall: a program whose term ends is
				// not started again in its period. This bucket has had no
				// leader before.
				flags: []string{"--once", "--every", every, "--ttl", "30s", "--grace", "off"}, env: []string{lengthVariable + "=50"},
			}
			r.start()
			l.Cleanup(r.kill)
			runs = append(runs, r)
		}
		for _, r := range runs {
			if code := r.end(); code != 0 {
				l.Errorf("leader run --once (%s): exit status %d\n%s", r.version.name, code, r.said.String())
			}
		}
		all := stintsIn(l, l.dir, job)
		if got := len(all) - before; got != want {
			l.Errorf("%d programs of --once in a period, want %d", got, want)
			for _, r := range runs {
				l.Logf("--- %s (%s)\n%s", r.id, r.version.name, r.said.String())
			}
		}
		if found, _ := judge(all, nil); len(found) > 0 {
			l.Errorf("%q", found)
		}
		before = len(all)
	}
}

// replace has a host run another version.
func (l *lab) replace(h *host, v version) {
	l.Helper()
	s := l.led(0)
	h.stop()
	h.version = v
	if s.id == h.id {
		l.acts = append(l.acts, act{"replace", s})
		l.led(s.term + 1)
	}
	h.start()
	l.led(0)
	l.stand()
	l.agree()
	l.judge()
}

// sameHistory waits until leader history of both versions shows the same terms,
// and each term with the host whose program ran.
func (l *lab) sameHistory() {
	l.Helper()
	natslab.Eventually(l, "both versions return the same history", func(ctx context.Context) error {
		before, err := l.history(ctx, l.old)
		if err != nil {
			return err
		}
		after, err := l.history(ctx, l.new)
		if err != nil {
			return err
		}
		same := func(a, b place) bool { return a.Leader == b.Leader && a.Term == b.Term && a.Ended.Equal(b.Ended) }
		if !slices.EqualFunc(before, after, same) {
			return fmt.Errorf("old: %+v, new: %+v", before, after)
		}
		for _, s := range stintsIn(l, l.dir, group) {
			if !slices.ContainsFunc(after, func(p place) bool { return p.Leader == s.id && p.Term == s.term }) {
				return fmt.Errorf("no term %d of %s in %+v", s.term, s.id, after)
			}
		}
		return nil
	})
}
