package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/inspect"
)

func TestHostsCountPeriodsFromTheSameInstant(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for every, want := range map[time.Duration]time.Time{
		0: noon.Add(7 * time.Minute), time.Hour: noon, 24 * time.Hour: noon.Add(-12 * time.Hour),
	} {
		// Clocks and time zones of two hosts.
		for _, now := range []time.Time{noon.Add(7 * time.Minute), noon.Add(7*time.Minute + 59*time.Second).In(time.FixedZone("", 3600))} {
			if p := periodAt(now, every); !p.begin.Equal(want) {
				t.Errorf("every %v at %v: %v, want %v", every, now, p.begin, want)
			}
		}
	}
}

func TestARunIsHadByItsPeriodAndEarlierOnes(t *testing.T) {
	p := periodAt(time.UnixMilli(600_000), time.Minute)
	for begin, want := range map[int64]bool{540_000: false, 599_999: false, 600_000: true, 660_000: true} {
		if got := p.had(&inspect.Run{Begin: time.UnixMilli(begin), ID: "b"}); got != want {
			t.Errorf("%d: %v", begin, got)
		}
	}
	if p.had(nil) {
		t.Error("nobody has begun")
	}
}

// A run that begins amid a period of this host was begun by another --every. No
// clock is to blame.
func TestALaterRunIsBlamedOnTheClockOrOnAnotherEvery(t *testing.T) {
	p := periodAt(time.UnixMilli(600_000), time.Minute)
	for begin, want := range map[int64]string{600_000: "", 660_000: ": compare the clocks", 612_000: ": by another --every, --at or --zone"} {
		s := p.describe(inspect.Run{Begin: time.UnixMilli(begin), ID: "b"})
		if _, blames, _ := strings.Cut(s, ", later than that of this host, "+p.begin.Format(time.DateTime)); blames != want {
			t.Errorf("%d: %q", begin, s)
		}
	}
}

func TestAClockThatIsAPeriodAheadIsNoticed(t *testing.T) {
	p := periodAt(time.UnixMilli(600_000), time.Minute)
	for server, want := range map[int64]bool{600_000: false, 540_000: false, 539_999: true, 999_000: false} {
		if got := p.ahead(time.UnixMilli(server)); got != want {
			t.Errorf("%d: %v", server, got)
		}
	}
}

func TestADayBeginsWhenTheClockShowsTheTimeFirst(t *testing.T) {
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
		cmd := Command{Once: true, At: c.at, Zone: c.zone}
		if err := cmd.checkOnce(); err != nil && !strings.Contains(err.Error(), "--on-exit") {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		p := cmd.periodOf(now)
		if begin, end := p.begin.Format(time.RFC3339), p.end().In(p.begin.Location()).Format(time.RFC3339); begin != c.begin || end != c.end {
			t.Errorf("%s is in the period from %s to %s, want %s to %s", c.now, begin, end, c.begin, c.end)
		}
		if !p.of(p.begin).begin.Equal(p.begin) || !p.of(p.end().Add(-1)).begin.Equal(p.begin) {
			t.Errorf("%s: the period is not that of its ends", c.now)
		}
	}
}

func TestADayOfOnceIsChecked(t *testing.T) {
	for want, c := range map[string]Command{
		"--at: says nothing without --once":    {At: "01:30"},
		"--at: not with --every":               {Once: true, At: "01:30", Every: time.Hour},
		"--zone: says nothing without --at":    {Once: true, Zone: "UTC"},
		`--at "25:00": must be a time such as`: {Once: true, At: "25:00"},
		`--zone "Nowhere/At": must be a zone`:  {Once: true, At: "01:30", Zone: "Nowhere/At"},
	} {
		if err := c.checkOnce(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
