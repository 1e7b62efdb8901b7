package runner

import (
	"errors"
	"fmt"
	"os"
	"time"
	_ "time/tzdata" // hosts and images may lack the zones

	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/once"
	"github.com/seed-ff2cb582/leader/store"
)

// defaultEvery is the period of --once: what crontabs count by.
const defaultEvery = time.Minute

// schedule returns the periods of --once. Validate has seen the flags.
func (c Command) schedule() once.Schedule {
	if c.At == "" {
		every := defaultEvery
		if c.Every != nil {
			every = *c.Every
		}
		return once.Every(every)
	}
	clock, zone, _ := c.clock()
	return once.Daily(clock.Hour(), clock.Minute(), zone)
}

// clock reads --at and --zone.
func (c Command) clock() (clock time.Time, zone *time.Location, err error) {
	if clock, err = time.Parse("15:04", c.At); err != nil {
		return clock, nil, fmt.Errorf("--at %q: must be a time such as 01:30", c.At)
	}
	if c.Zone == "" {
		return clock, time.Local, nil //nolint:gosmopolitan // the host's zone is what crontabs go by
	}
	if zone, err = time.LoadLocation(c.Zone); err != nil {
		return clock, nil, fmt.Errorf("--zone %q: must be a zone such as Europe/Berlin or UTC: %w", c.Zone, err)
	}
	return clock, zone, nil
}

// describe describes, for people, which host started the run of the period, and
// the cause of a later run: another kind of period, where no period of this host
// begins then, or else the clocks.
func describe(ran inspect.Run, s once.Schedule, p once.Period) string {
	const layout = time.DateTime + " MST"
	text := fmt.Sprintf("%q has started the run of %s", ran.ID, ran.Begin.In(p.Begin.Location()).Format(layout))
	if !ran.Begin.After(p.Begin) {
		return text
	}
	why := "compare the clocks"
	if !s.At(ran.Begin).Begin.Equal(ran.Begin) {
		why = "by another --every, --at or --zone"
	}
	return text + fmt.Sprintf(", later than the run of this host, %s: %s", p.Begin.Format(layout), why)
}

// checkOnce looks for what does not go together. Each pair that is refused
// would have two answers to when leader run ends, or to how many hosts begin.
func (c Command) checkOnce() error {
	var errs []error
	switch {
	case !c.Once && c.Every != nil:
		errs = append(errs, errors.New("--every: has no effect without --once"))
	case !c.Once && c.At != "":
		errs = append(errs, errors.New("--at: has no effect without --once"))
	case c.Every != nil && c.At != "":
		errs = append(errs, errors.New("--at: not with --every: both define when a period begins"))
	case c.Zone != "" && c.At == "":
		errs = append(errs, errors.New("--zone: has no effect without --at"))
	case c.At != "":
		if _, _, err := c.clock(); err != nil {
			errs = append(errs, err)
		}
	case c.Every != nil && *c.Every < once.MinPeriod:
		errs = append(errs, fmt.Errorf("--every %v: must be at least 1s", *c.Every))
	}
	switch {
	case !c.Once:
	case len(inspect.RanKey(c.Group)) > store.MaxKey:
		errs = append(errs, fmt.Errorf("group %q: must have at most %d bytes with --once, which notes runs at %s", c.Group, store.MaxKey-len(inspect.RanKey("")), inspect.RanKey("GROUP")))
	case c.Try:
		errs = append(errs, errors.New("--once: not with --try: it ends when another host has started the program"))
	case c.Slots > 1:
		errs = append(errs, errors.New("--once: not with --slots: one host starts the program"))
	case c.OnExit != onExitRelease:
		errs = append(errs, fmt.Errorf("--once: not with --on-exit %s: it ends with its program", c.OnExit))
	}
	return errors.Join(errs...)
}

// processName names a candidate by its host and its process. The process
// distinguishes two runs of a host, and the host shows people where one runs.
func processName() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("--id: the host has no name to take: %w", err)
	}
	return fmt.Sprintf("%s.%d", host, os.Getpid()), nil
}
