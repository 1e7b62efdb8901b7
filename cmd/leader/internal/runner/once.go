package runner

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seed-ff2cb582/leader/inspect"
)

// defaultEvery is the period of --once: what crontabs count by.
const defaultEvery = time.Minute

// A period is that in which a program of --once is to be begun.
type period struct {
	begin time.Time
	every time.Duration
}

// periodAt returns the period of an instant. All hosts count from the same one.
// They do so in milliseconds since 1970 and not from when each began: crons
// start within seconds of each other, and must find themselves in one period.
func periodAt(now time.Time, every time.Duration) period {
	if every == 0 {
		every = defaultEvery
	}
	ms := now.UnixMilli()
	return period{begin: time.UnixMilli(ms - ms%every.Milliseconds()), every: every}
}

// had reports whether a run of this period, or of a later one, has been begun.
// A run of a later period counts as well: this host is late, or its clock is
// behind, and a program that began now would be the second one of somebody's
// period.
func (p period) had(ran *inspect.Run) bool { return ran != nil && !ran.Begin.Before(p.begin) }

// describe says for people who has begun the run, and what is to blame where it
// is a later one: another --every, where no period of this host begins then, or
// else the clocks.
func (p period) describe(ran inspect.Run) string {
	s := fmt.Sprintf("%q has begun the run of %s", ran.ID, ran.Begin.Format(time.DateTime))
	if !ran.Begin.After(p.begin) {
		return s
	}
	why := "compare the clocks"
	if !periodAt(ran.Begin, p.every).begin.Equal(ran.Begin) {
		why = fmt.Sprintf("by another --every than %v", p.every)
	}
	return s + fmt.Sprintf(", later than that of this host, %s: %s", p.begin.Format(time.DateTime), why)
}

// ahead reports whether this host's clock was so far ahead of the server's,
// which has stored something since, that what it notes would keep others away.
// A difference of one period is allowed, since that is what the help promises:
// hosts whose clocks are apart by less exclude one another.
func (p period) ahead(server time.Time) bool { return p.begin.After(server.Add(p.every)) }

// checkOnce looks for what does not go together. Each pair that is refused
// would have two answers to when leader run ends, or to how many hosts begin.
func (c Command) checkOnce() error {
	var errs []error
	switch {
	case !c.Once && c.Every != 0:
		errs = append(errs, errors.New("--every: says nothing without --once"))
	case c.Once && c.Every != 0 && c.Every < time.Second:
		errs = append(errs, fmt.Errorf("--every %v: must be at least 1s", c.Every))
	}
	switch {
	case !c.Once:
	case c.Try:
		errs = append(errs, errors.New("--once: not with --try: it ends when another host has begun the program"))
	case c.Slots > 1:
		errs = append(errs, errors.New("--once: not with --slots: one host begins the program"))
	case c.OnExit != onExitRelease:
		errs = append(errs, fmt.Errorf("--once: not with --on-exit %s: it ends with its program", c.OnExit))
	}
	return errors.Join(errs...)
}

// processName names a candidate by its host and its process. The process tells
// two runs of a host apart, and the host tells people where one runs.
func processName() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("--id: the host has no name to take: %w", err)
	}
	return fmt.Sprintf("%s.%d", host, os.Getpid()), nil
}
