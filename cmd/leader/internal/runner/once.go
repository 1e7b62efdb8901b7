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
	mark  *inspect.Run // what this process has noted, or may have
}

// periodAt returns the period of an instant. All hosts count from the same one.
func periodAt(now time.Time, every time.Duration) period {
	if every == 0 {
		every = defaultEvery
	}
	ms := now.UnixMilli()
	return period{begin: time.UnixMilli(ms - ms%every.Milliseconds()), every: every}
}

// had reports whether a run of this period, or of a later one, has been begun
// by another process.
func (p period) had(ran *inspect.Run) bool {
	own := ran != nil && p.mark != nil && ran.Equal(*p.mark)
	return ran != nil && !own && !ran.Begin.Before(p.begin)
}

func (p period) describe(ran inspect.Run) string {
	s := fmt.Sprintf("%q has begun the run of %s", ran.ID, ran.Begin.Format(time.DateTime))
	if ran.Begin.After(p.begin) {
		s += fmt.Sprintf(", later than that of this host, %s: compare the clocks", p.begin.Format(time.DateTime))
	}
	return s
}

// ahead reports whether this host's clock was so far ahead of the server's,
// which has stored something since, that what it notes would keep others away.
func (p period) ahead(server time.Time) bool { return p.begin.After(server.Add(p.every)) }

// checkOnce looks for what does not go together.
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

// processName names a candidate by its host and its process.
func processName() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("--id: the host has no name to take: %w", err)
	}
	return fmt.Sprintf("%s.%d", host, os.Getpid()), nil
}
