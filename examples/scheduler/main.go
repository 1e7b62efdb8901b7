// Command scheduler runs a job at fixed times, as cron does, in several copies
// of which one acts: each slot of the schedule is run once, whatever crashes,
// stalls or is cut off.
//
//	go run ./examples/scheduler -dev -id a -db /tmp/jobs.db
//
// The first copy runs a NATS server. In another terminal:
//
//	go run ./examples/scheduler -id b -db /tmp/jobs.db
//
// The election keeps two copies from acting at the same time. It cannot keep a
// copy from being stopped after it looked at its lease and going on when
// another leads; so the job's effect and the fence (package sqlfence) are in
// one transaction: the database turns a stale leader away, and no slot is run
// twice. Try it with -work 5s: stop the leader with kill -STOP while it
// prepares a run, wait until the other has run that slot, and let it go on with
// kill -CONT.
//
// The database is SQLite, which the copies on one machine share as a file. With
// PostgreSQL or MySQL, open changes, and nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/examples/internal/app"
	"github.com/seed-ff2cb582/leader/fence"
)

const group = "scheduler"

func main() { os.Exit(app.Main(run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f app.Flags
	s := scheduler{say: func(term leader.Term, format string, args ...any) { app.Say(stdout, f.ID, term, format, args...) }}
	path := "jobs.db"
	err := f.Parse("scheduler", args, stderr, func(fs *flag.FlagSet) {
		fs.StringVar(&path, "db", path, "the database `file`, the same for all copies")
		fs.DurationVar(&s.every, "every", 10*time.Second, "the time from one slot to the next")
		fs.DurationVar(&s.work, "work", 0, "how long a run is prepared before its effect is written")
	})
	switch {
	case err != nil:
		return err
	case s.every < time.Second || s.every%time.Second != 0:
		return fmt.Errorf("-every %v: must be whole seconds", s.every)
	}
	if s.ledger, err = open(ctx, path); err != nil {
		return err
	}
	defer s.ledger.close()
	nc, closeAll, err := f.Connect()
	if err != nil {
		return err
	}
	defer closeAll()

	s.id = f.ID
	cfg := leader.ElectionConfig{
		Bucket: app.Bucket, BucketAutoCreate: true, Group: group, InstanceID: f.ID, TTL: f.TTL, Logger: f.Logger(), AcquireGrace: f.Grace(),
	}.WithProfile(f.Profile)
	return leader.Run(ctx, nc, cfg, s.lead)
}

type scheduler struct {
	ledger      *ledger
	id          string
	every, work time.Duration
	say         func(term leader.Term, format string, args ...any)
}

// retry is the delay after the database failed.
const retry = 200 * time.Millisecond

// lead runs the slots that come due during a term.
func (s *scheduler) lead(ctx context.Context, term leader.Term) error {
	for ctx.Err() == nil {
		err := s.leadOnce(ctx, term)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if errors.Is(err, fence.ErrStale) {
			return err // by the lease we lead, by the database another does: it is right
		}
		s.say(term, "fails error=%q", err)
		app.Sleep(ctx, retry)
	}
	return nil // the term is over, and Run campaigns again
}

func (s *scheduler) leadOnce(ctx context.Context, term leader.Term) error {
	// From here on the database refuses our predecessor, so that its past
	// entries are final.
	last, err := s.ledger.begin(ctx, term)
	if err != nil {
		return err
	}
	if last.IsZero() {
		s.say(term, "begins")
	} else {
		s.say(term, "begins last=%d", last.Unix())
	}
	return s.serve(ctx, term, last)
}

// serve runs one slot after the other until the term ends or the database
// fails.
func (s *scheduler) serve(ctx context.Context, term leader.Term, last time.Time) error {
	for {
		slot := next(last, time.Now(), s.every)
		if !app.Sleep(ctx, time.Until(slot)) {
			return nil
		}
		// The term was looked at. From here to the effect the program may be
		// stopped for any length, which no look can prevent; so this program
		// looks no more, to show that the database does not need it to.
		s.say(term, "prepares slot=%d", slot.Unix())
		<-time.After(s.work)
		ran, err := s.ledger.run(context.WithoutCancel(ctx), term, slot, s.id)
		switch {
		case errors.Is(err, fence.ErrStale):
			s.say(leader.Term{}, "refused slot=%d term=%d", slot.Unix(), term.Number)
			return err
		case err != nil:
			return err
		case ran:
			s.say(term, "ran slot=%d", slot.Unix())
		}
		last = slot
	}
}

// catchUp is how many slots that were missed while nobody led are run late.
// Older ones are left out.
const catchUp = 5

// next returns the slot to run after last: the first one that was missed, of
// the latest few, or the next to come.
func next(last, now time.Time, every time.Duration) time.Time {
	current := now.Truncate(every)
	if last.IsZero() || last.After(now) {
		return current.Add(every) // the schedule begins, or the clock was set back
	}
	slot := last.Truncate(every).Add(every)
	if oldest := current.Add(-catchUp * every); slot.Before(oldest) {
		return oldest
	}
	return slot
}
