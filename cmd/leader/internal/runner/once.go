package runner

import (
	"errors"
	"fmt"
	"os"
	"time"
	_ "time/tzdata" // hosts and images may lack the zones

	"github.com/seed-ff2cb582/leader/inspect"
)

// defaultEvery is the period of --once: what crontabs count by.
const defaultEvery = time.Minute

// A period is that in which a program of --once is to be begun.
type period struct {
	begin time.Time
	every time.Duration
	of    func(time.Time) period // of another instant
}

// end is when the next period begins.
func (p period) end() time.Time { return p.begin.Add(p.every) }

// periodAt returns the period of an instant. All hosts count from the same one.
// They do so in milliseconds since 1970 and not from when each began: crons
// start within seconds of each other, and must find themselves in one period.
func periodAt(now time.Time, every time.Duration) period {
	if every == 0 {
		every = defaultEvery
	}
	ms := now.UnixMilli()
	return period{time.UnixMilli(ms - ms%every.Milliseconds()), every, func(t time.Time) period { return periodAt(t, every) }}
}

// dayAt returns the day of an instant, from one time of the clock to the next.
func dayAt(now, clock time.Time, zone *time.Location) period {
	now = now.In(zone)
	day := now.Day()
	begin := firstOf(now.Year(), now.Month(), day, clock, zone)
	if begin.After(now) {
		day--
		begin = firstOf(now.Year(), now.Month(), day, clock, zone)
	}
	next := firstOf(now.Year(), now.Month(), day+1, clock, zone)
	return period{begin, next.Sub(begin), func(t time.Time) period { return dayAt(t, clock, zone) }}
}

// firstOf returns when a clock shows a time on a day. Where a clock is set back
// the day may have the time twice, of which the first counts. Where it is set
// forward it may not have it: then it is as much later.
func firstOf(year int, month time.Month, day int, clock time.Time, zone *time.Location) time.Time {
	var first time.Time
	for _, other := range []int{day - 1, day + 1} { // before a change of the clock, and after it
		_, offset := time.Date(year, month, other, 12, 0, 0, 0, zone).Zone()
		t := time.Date(year, month, day, clock.Hour(), clock.Minute(), 0, 0, time.UTC).Add(-time.Duration(offset) * time.Second).In(zone)
		shows := t.Hour() == clock.Hour() && t.Minute() == clock.Minute()
		if first.IsZero() || shows && (t.Before(first) || first.Hour() != clock.Hour() || first.Minute() != clock.Minute()) {
			first = t
		}
	}
	return first
}

// periodOf returns the period of --once that an instant is in. Validate has seen
// the flags.
func (c Command) periodOf(now time.Time) period {
	if c.At == "" {
		return periodAt(now, c.Every)
	}
	clock, zone, _ := c.clock()
	return dayAt(now, clock, zone)
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

// had reports whether a run of this period, or of a later one, has been begun.
// A run of a later period counts as well: this host is late, or its clock is
// behind, and a program that began now would be the second one of somebody's
// period.
func (p period) had(ran *inspect.Run) bool { return ran != nil && !ran.Begin.Before(p.begin) }

// describe says for people who has begun the run, and what is to blame where it
// is a later one: another kind of period, where no period of this host begins then, or
// else the clocks.
func (p period) describe(ran inspect.Run) string {
	s := fmt.Sprintf("%q has begun the run of %s", ran.ID, ran.Begin.Format(time.DateTime))
	if !ran.Begin.After(p.begin) {
		return s
	}
	why := "compare the clocks"
	if !p.of(ran.Begin).begin.Equal(ran.Begin) {
		why = "by another --every, --at or --zone"
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
	case !c.Once && c.At != "":
		errs = append(errs, errors.New("--at: says nothing without --once"))
	case c.Every != 0 && c.At != "":
		errs = append(errs, errors.New("--at: not with --every: each says when a period begins"))
	case c.Zone != "" && c.At == "":
		errs = append(errs, errors.New("--zone: says nothing without --at"))
	case c.At != "":
		if _, _, err := c.clock(); err != nil {
			errs = append(errs, err)
		}
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
