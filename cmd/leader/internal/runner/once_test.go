package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/once"
)

func TestFlagsDetermineThePeriods(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags Command
		want  once.Schedule
	}{
		{Command{Once: true}, once.Every(time.Minute)},
		{Command{Once: true, Every: new(time.Hour)}, once.Every(time.Hour)},
		{Command{Once: true, At: "01:30", Zone: "Europe/Berlin"}, once.Daily(1, 30, berlin)},
	} {
		now := time.Now()
		if got, want := c.flags.schedule().At(now), c.want.At(now); !got.Begin.Equal(want.Begin) || !got.End.Equal(want.End) {
			t.Errorf("%+v: period %v, want %v", c.flags, got, want)
		}
	}
}

// A run that begins amid a period of this host was started by another --every.
// The clocks are not the cause.
func TestALaterRunIsBlamedOnTheClockOrOnAnotherEvery(t *testing.T) {
	minutes := once.Every(time.Minute)
	p := minutes.At(time.UnixMilli(600_000))
	for begin, want := range map[int64]string{600_000: "", 660_000: ": compare the clocks", 612_000: ": by another --every, --at or --zone"} {
		s := describe(inspect.Run{Begin: time.UnixMilli(begin), ID: "b"}, minutes, p)
		if _, blames, _ := strings.Cut(s, ", later than the run of this host, "+p.Begin.Format(time.DateTime+" MST")); blames != want {
			t.Errorf("%d: %q", begin, s)
		}
	}
}

func TestADayOfOnceIsChecked(t *testing.T) {
	for want, c := range map[string]Command{
		"--at: has no effect without --once":   {At: "01:30"},
		"--at: not with --every":               {Once: true, At: "01:30", Every: new(time.Hour)},
		"--zone: has no effect without --at":   {Once: true, Zone: "UTC"},
		"--every 0s: must be at least 1s":      {Once: true, Every: new(time.Duration)},
		`--at "25:00": must be a time such as`: {Once: true, At: "25:00"},
		`--zone "Nowhere/At": must be a zone`:  {Once: true, At: "01:30", Zone: "Nowhere/At"},
	} {
		if err := c.checkOnce(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
