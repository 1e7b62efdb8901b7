package figure

import (
	"testing"
	"time"
)

func TestDurationsKeepWhatMeansSomething(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", time.Microsecond: "< 0.01 ms", 415 * time.Microsecond: "0.41 ms", 12345 * time.Microsecond: "12.3 ms", 3 * time.Second: "3000 ms",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
