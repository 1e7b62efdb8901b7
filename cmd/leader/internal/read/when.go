package read

import (
	"fmt"
	"strings"
	"time"
)

// parseTime reads a time as people write it: RFC 3339, a date and time, a time
// of the day, or how long ago. A length goes first, since none of the others
// looks like one. A time without a zone is in the zone of now, the user's.
func parseTime(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(strings.TrimPrefix(s, "-")); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, s); err == nil {
			return timeOfDay(t, now), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q: must be a time such as 14:03:07 or 2026-11-20T14:03:07Z, or a length such as 5m for five minutes ago", s)
}

// timeOfDay is the latest instant that is no later than now at which clocks
// showed that time. A question about the future makes no sense. The day before
// is computed from the calendar: a day is not always 24 hours long.
func timeOfDay(t, now time.Time) time.Time {
	on := func(day int) time.Time {
		return time.Date(now.Year(), now.Month(), day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location())
	}
	if today := on(now.Day()); !today.After(now) {
		return today
	}
	return on(now.Day() - 1)
}
