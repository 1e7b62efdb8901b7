package once

import (
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// MinPeriod is the shortest period of [Every].
const MinPeriod = time.Second

// A Schedule divides time into periods: see [Every] and [Daily]. All hosts of a
// group need the same schedule. Schedules are values that can be compared; the
// zero Schedule is invalid.
type Schedule struct {
	every        time.Duration // of Every, otherwise 0
	hour, minute int
	zone         *time.Location // of Daily, otherwise nil
}

// Every returns the schedule whose periods have a length of at least
// [MinPeriod]. They are counted from 1970 (UTC) in whole milliseconds, and not
// from when each host began: hosts that start within seconds of each other are
// in one period. So a period of 24 h begins at midnight UTC.
func Every(length time.Duration) Schedule { return Schedule{every: length} }

// Daily returns the schedule whose periods begin when the clock of a zone shows
// a time of the day: for the first time on a day that has it twice, and later by
// as much as the clock skips on a day that does not have it. hour is 0 to 23,
// minute 0 to 59. zone is required.
func Daily(hour, minute int, zone *time.Location) Schedule {
	return Schedule{hour: hour, minute: minute, zone: zone}
}

// Validate returns the rule that the schedule breaks, as a *leader.ConfigError,
// or nil.
func (s Schedule) Validate() error {
	switch {
	case s.every == 0 && s.zone == nil:
		return &leader.ConfigError{Field: "schedule", Value: s.every, Rule: "is required: Every with a length, or Daily with a time zone"}
	case s.every < MinPeriod && s.zone == nil:
		return &leader.ConfigError{Field: "schedule", Value: s.every, Rule: fmt.Sprintf("must have periods of at least %v", MinPeriod)}
	case s.hour < 0 || s.hour > 23 || s.minute < 0 || s.minute > 59:
		return &leader.ConfigError{Field: "schedule", Value: fmt.Sprintf("%d:%02d", s.hour, s.minute), Rule: "must be a time of the day"}
	}
	return nil
}

// A Period is the time in which one run is to start.
type Period struct {
	Begin time.Time // the first instant of the period
	End   time.Time // the first instant of the next period
}

// At returns the period of an instant. The schedule must be valid.
func (s Schedule) At(now time.Time) Period {
	if s.zone == nil {
		ms := now.UnixMilli()
		begin := time.UnixMilli(ms - ms%s.every.Milliseconds())
		return Period{begin, begin.Add(s.every)}
	}
	now = now.In(s.zone)
	year, month, day := now.Date()
	begin := s.beginOf(year, month, day)
	if begin.After(now) {
		day--
		begin = s.beginOf(year, month, day)
	}
	return Period{begin, s.beginOf(year, month, day+1)}
}

// beginOf returns when the clock first shows the time on a day.
func (s Schedule) beginOf(year int, month time.Month, day int) time.Time {
	var first time.Time
	shows := func(t time.Time) bool { return t.Hour() == s.hour && t.Minute() == s.minute }
	for _, other := range []int{day - 1, day + 1} { // before a change of the clock, and after it
		_, offset := time.Date(year, month, other, 12, 0, 0, 0, s.zone).Zone()
		t := time.Date(year, month, day, s.hour, s.minute, 0, 0, time.UTC).Add(-time.Duration(offset) * time.Second).In(s.zone)
		if first.IsZero() || shows(t) && (t.Before(first) || !shows(first)) {
			first = t
		}
	}
	return first
}
