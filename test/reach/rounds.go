package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var errSection = errors.New("there is no such section")

// The sections of a run, and what befalls the leaders there.
const (
	leaving = "handovers"
	killed  = "crashes"
	frozen  = "freezes"
	silent  = "silences"
)

func sections() []string { return []string{leaving, killed, frozen, silent} }

func (l *lab) rounds(f *figures, only []string) error {
	for _, section := range []struct {
		name        string
		many, quick int
		round       func(i int, f *figures) error
	}{{leaving, 20, 2, l.handOver}, {killed, 10, 1, l.crash}, {frozen, 5, 1, l.freeze}, {silent, 6, 2, l.silence}} {
		if only != nil && !slices.Contains(only, section.name) {
			continue
		}
		err := l.Measure(section.name, func() error {
			for i := range l.N(section.many, section.quick) {
				floor, err := l.quiet()
				if err != nil {
					return err
				}
				f.floor = append(f.floor, floor)
				if err := section.round(i, f); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A succession is the end of what befell a leader.
type succession struct {
	at        time.Time // when the successor began to lead
	promotion promotion
}

// successor waits for who leads after an instance, and until the client has
// seen that.
func (l *lab) successor(kind string, old *member) (s succession, err error) {
	e, err := l.hear("a successor", func(e event) bool { return e.Promotion != nil && e.ID != old.id })
	if err != nil {
		return s, err
	}
	seen, err := l.clientLeaves(old.id)
	l.faults = append(l.faults, fault{kind: kind, id: old.id, address: old.address, succeeded: e.Promotion.To, seen: seen})
	return succession{e.At, *e.Promotion}, err
}

func (l *lab) handOver(_ int, f *figures) error {
	old, err := l.current()
	if err != nil {
		return err
	}
	begun, ended := time.Now(), make(chan error, 1)
	delete(l.runs, old.id)
	go func() { ended <- l.leave(old) }()
	next, err := l.successor(leaving, old)
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	if err := l.Pause(settle); err != nil {
		return err
	}
	took, longest := next.at.Sub(begun), l.load.longest(begun)
	f.handover, f.handed, f.beyond = append(f.handover, took), append(f.handed, longest), append(f.beyond, longest-took)
	return nil
}

// leave ends an instance as a program does that is asked to.
func (l *lab) leave(m *member) error {
	if !l.over.lingers {
		return m.End()
	}
	// It refuses requests, which then go to the next leader, until none comes.
	_, err := io.WriteString(m.In, "leave\n")
	if err == nil {
		var left time.Time
		if left, err = l.clientLeaves(m.id); err == nil {
			err = l.Await("the requests at "+m.id+" to end", nil, func() bool { return l.load.over(left) })
		}
	}
	return errors.Join(err, m.End())
}

func (l *lab) crash(_ int, f *figures) error {
	old, err := l.hold()
	if err != nil {
		return err
	}
	begun := time.Now()
	delete(l.runs, old.id)
	old.Kill()
	dead := time.Now()
	next, err := l.successor(killed, old)
	if err != nil {
		return err
	}
	l.faults[len(l.faults)-1].dead = dead
	err = l.Pause(settle)
	f.failover, f.crashed = append(f.failover, next.at.Sub(begun)), append(f.crashed, l.load.longest(begun))
	return err
}

// freeze stops a leader until its successor answers and the calls are over that
// were under way, and has a call wait at its door for when it goes on.
func (l *lab) freeze(i int, f *figures) error {
	old, door, err := l.pin()
	if err != nil {
		return err
	}
	defer door.Close()
	defer l.load.haste(false)
	l.load.haste(true)
	hurried := time.Now()
	if err := l.Await("the calls to end that have time", nil, func() bool { return l.load.over(hurried) }); err != nil {
		return err
	}
	begun, since := time.Now(), overlap.Now()
	if err := old.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	next, err := l.successor(frozen, old)
	if err != nil {
		return err
	}
	if next.promotion.From < since { // a busy machine has deposed it before
		return errors.Join(old.Signal(syscall.SIGCONT), l.freeze(i, f))
	}
	l.load.haste(false)
	seen := time.Now()
	err = l.Await("answers while the leader of before is frozen", nil, func() bool {
		return l.load.over(seen) && l.load.answered(seen) >= l.load.rate/10
	})
	if err != nil {
		return err
	}
	f.frozen, f.thawed = append(f.frozen, next.at.Sub(begun)), append(f.thawed, l.load.longestOf(seen))
	p := l.pend(door, l.load.next(), old.id)
	if err := old.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	return errors.Join(f.atTheDoor(p), l.Pause(settle))
}

// silence cuts a leader off from NATS: its messages are lost in both
// directions, or its connections break. It can be called at any time.
func (l *lab) silence(i int, f *figures) error {
	if err := l.proxied(); err != nil {
		return err
	}
	old, door, err := l.pin()
	if err != nil {
		return err
	}
	defer door.Close()
	begun := time.Now()
	if i%2 == 0 {
		old.proxy.Hold(natslab.ToServer, natslab.ToClient)
	} else {
		old.proxy.Cut()
	}
	next, err := l.successor(silent, old)
	if err != nil {
		return err
	}
	err = f.atTheDoor(l.pend(door, l.load.next(), old.id))
	old.proxy.Resume()
	err = errors.Join(err, l.Pause(settle))
	f.silent, f.unheard = append(f.silent, next.at.Sub(begun)), append(f.unheard, l.load.longest(begun))
	return err
}

// proxied replaces instances that reach NATS without a proxy.
func (l *lab) proxied() error {
	l.through = true
	for _, m := range l.runs {
		if m.proxy != nil {
			continue
		}
		if err := l.join(); err != nil {
			return err
		}
		delete(l.runs, m.id)
		if err := l.leave(m); err != nil {
			return err
		}
	}
	return nil
}

// atTheDoor waits for the end of a call to an instance that does not lead. The
// journals show whether it was allowed to run the call, if it did.
func (f *figures) atTheDoor(p *pending) error {
	<-p.done
	if p.err != nil && !p.refused {
		return fmt.Errorf("a call to %s, which led before: %w", p.to, p.err)
	}
	return nil
}
