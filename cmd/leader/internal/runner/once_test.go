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
	for begin, want := range map[int64]string{600_000: "", 660_000: ": compare the clocks", 612_000: ": by another --every than 1m0s"} {
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
