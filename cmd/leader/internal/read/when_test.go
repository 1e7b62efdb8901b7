package read

import (
	"testing"
	"time"
)

func TestTimesAreReadAsPeopleWriteThem(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 20, 14, 30, 0, 0, berlin)
	for s, want := range map[string]time.Time{
		"14:03:07":                  time.Date(2026, 11, 20, 14, 3, 7, 0, berlin),
		"14:30":                     now,
		"14:31":                     time.Date(2026, 11, 19, 14, 31, 0, 0, berlin), // yet to come today
		"2026-11-20T14:03:07Z":      time.Date(2026, 11, 20, 14, 3, 7, 0, time.UTC),
		"2026-11-20T14:03:07+05:00": time.Date(2026, 11, 20, 9, 3, 7, 0, time.UTC),
		"2026-11-20 14:03:07":       time.Date(2026, 11, 20, 14, 3, 7, 0, berlin),
		"2026-11-20 14:03:07.123":   time.Date(2026, 11, 20, 14, 3, 7, 123e6, berlin),
		"2026-11-19":                time.Date(2026, 11, 19, 0, 0, 0, 0, berlin),
		"5m":                        now.Add(-5 * time.Minute),
		"-5m":                       now.Add(-5 * time.Minute),
		"1h30m":                     now.Add(-90 * time.Minute),
	} {
		if got, err := parseTime(s, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, want %v: %v", s, got, want, err)
		}
	}
	for _, s := range []string{"", "noon", "25:00", "--5m", "5", "2026-13-01"} {
		if got, err := parseTime(s, now); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func TestLengthsHaveTwoUnitsAtTheMost(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 8 * time.Millisecond: "8ms", 3210 * time.Millisecond: "3.2s", 59 * time.Second: "59s",
		200 * time.Second: "3m20s", 5*time.Hour + 3*time.Minute + 20*time.Second: "5h3m", 47 * time.Hour: "47h0m",
		12*day + 3*time.Hour: "12d3h",
	} {
		if got := length(d); got != want {
			t.Errorf("%v: %q, want %q", int64(d), got, want)
		}
	}
}
