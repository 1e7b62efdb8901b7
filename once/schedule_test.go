package once_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/once"
)

func TestPeriodsOfAllHostsBeginAtTheSameInstant(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for every, want := range map[time.Duration]time.Time{
		time.Minute: noon.Add(7 * time.Minute), time.Hour: noon, 24 * time.Hour: noon.Add(-12 * time.Hour),
	} {
		// Clocks and time zones of two hosts.
		for _, now := range []time.Time{noon.Add(7 * time.Minute), noon.Add(7*time.Minute + 59*time.Second).In(time.FixedZone("", 3600))} {
			if p := once.Every(every).At(now); !p.Begin.Equal(want) || !p.End.Equal(want.Add(every)) {
				t.Errorf("every %v at %v: %v, want %v", every, now, p, want)
			}
		}
	}
}

func TestDayBeginsWhenTheClockFirstShowsTheTime(t *testing.T) {
	for _, c := range []struct{ now, zone, at, begin, end string }{
		{"2026-11-28T15:00:00+01:00", "Europe/Berlin", "01:30", "2026-11-28T01:30:00+01:00", "2026-11-29T01:30:00+01:00"},
		{"2026-11-28T01:29:59+01:00", "Europe/Berlin", "01:30", "2026-11-27T01:30:00+01:00", "2026-11-28T01:30:00+01:00"},
		{"2026-11-28T01:30:00+01:00", "Europe/Berlin", "01:30", "2026-11-28T01:30:00+01:00", "2026-11-29T01:30:00+01:00"},
		// Summer time begins: two runs of a crontab that --every 24h takes for one.
		{"2026-03-29T01:30:00+01:00", "Europe/Berlin", "01:30", "2026-03-29T01:30:00+01:00", "2026-03-30T01:30:00+02:00"},
		{"2026-03-30T01:30:00+02:00", "Europe/Berlin", "01:30", "2026-03-30T01:30:00+02:00", "2026-03-31T01:30:00+02:00"},
		// A day without the time, and one that has it twice.
		{"2026-03-29T03:30:00+02:00", "Europe/Berlin", "02:30", "2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"},
		{"2026-03-29T03:29:00+02:00", "Europe/Berlin", "02:30", "2026-03-28T02:30:00+01:00", "2026-03-29T03:30:00+02:00"},
		{"2026-03-29T05:00:00+02:00", "Europe/Berlin", "05:00", "2026-03-29T05:00:00+02:00", "2026-03-30T05:00:00+02:00"},
		{"2026-10-25T05:00:00+01:00", "Europe/Berlin", "05:00", "2026-10-25T05:00:00+01:00", "2026-10-26T05:00:00+01:00"},
		{"2026-10-25T02:30:00+02:00", "Europe/Berlin", "02:30", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		{"2026-10-25T02:30:00+01:00", "Europe/Berlin", "02:30", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		{"2026-12-31T23:59:00Z", "UTC", "00:00", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"2026-01-01T00:00:00Z", "UTC", "23:59", "2025-12-31T23:59:00Z", "2026-01-01T23:59:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse("15:04", c.at)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		s := once.Daily(at.Hour(), at.Minute(), zone)
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		p := s.At(now)
		if begin, end := p.Begin.Format(time.RFC3339), p.End.Format(time.RFC3339); begin != c.begin || end != c.end {
			t.Errorf("%s is in the period from %s to %s, want %s to %s", c.now, begin, end, c.begin, c.end)
		}
		if s.At(p.Begin) != p || s.At(p.End.Add(-1)) != p {
			t.Errorf("%s: the period does not match its ends", c.now)
		}
	}
}

func TestScheduleNamesTheRuleThatItBreaks(t *testing.T) {
	const absent = "schedule 0s is required: Every with a length, or Daily with a time zone"
	for s, want := range map[once.Schedule]string{
		{}:                           absent,
		once.Daily(1, 30, nil):       absent,
		once.Every(time.Millisecond): "schedule 1ms must have periods of at least 1s",
		once.Every(-time.Hour):       "schedule -1h0m0s must have periods of at least 1s",
		once.Daily(24, 0, time.UTC):  `schedule "24:00" must be a time of the day`,
		once.Daily(1, -5, time.UTC):  `schedule "1:-5" must be a time of the day`,
	} {
		if err := s.Validate(); !errors.Is(err, leader.ErrInvalidConfig) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
