package completion

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app/apptest"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// On a store that does not report when it stored a record.
func TestSilentHolderLeadsNoMoreElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		apptest.Lead(t, st, "g", "gone", time.Hour)
		flags := map[string]string{"store": "memory://"}
		kit := apptest.Elsewhere(st, time.Minute).Kit
		all := asked(flags, kit, func(string) (string, bool) { return "", false }, func(ctx context.Context, s *app.Session) []string {
			return groups(ctx, s, flags)
		})
		if len(all) != 1 || all[0] != "g\tno leader" {
			t.Errorf("%q", all)
		}
	})
}
