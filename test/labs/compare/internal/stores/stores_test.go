package stores_test

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/stores"
)

// One store is enough for the test: its server is embedded.
func TestStoresAreMeasuredAndOmissionsReported(t *testing.T) {
	t.Parallel()
	r, err := stores.Measure(harness.Run{Ctx: t.Context(), Quick: true, Progress: t.Output()}, "../../../../..", "^(NATS)$")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Stores {
		switch {
		case s.Name == "NATS":
			if s.Absent != "" || s.Trips != 1 || len(s.Handover) == 0 || s.PerTTL() < 1 {
				t.Errorf("%+v", s)
			}
		case !strings.HasPrefix(s.Absent, "not "):
			t.Errorf("%s: %q", s.Name, s.Absent)
		}
	}
}
