package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The manager runs then, with the other roles, and a program that is told
// otherwise makes a second one.
func TestARoleThatIsRemovedWhileTheManagerStartsIsNoErrorOfIt(t *testing.T) {
	for _, verdict := range []error{nil, store.ErrTransient, store.ErrPermanent} {
		synctest.Test(t, func(t *testing.T) {
			st := &checked{Store: memstore.New(), hold: make(chan struct{})}
			f := newFleet(t, 2)
			m := f.manager(&checkedRole{checked: st, key: f.roles[1], err: verdict}, spreading("a"))
			errs := make(chan error, 1)
			go func() { errs <- m.Start(t.Context()) }()
			synctest.Wait()
			if err := m.Remove(t.Context(), f.roles[1]); err != nil {
				t.Errorf("Remove: %v", err)
			}
			close(st.hold)
			if err := <-errs; err != nil {
				t.Errorf("with the removed role's check at %v, Start: %v", verdict, err)
			}
			time.Sleep(ttl)
			mustHold(t, []int{1}, m)
			stopRoles(t, m)
		})
	}
}

// A checkedRole has a check that fails for one role.
type checkedRole struct {
	*checked

	key string
	err error
}

func (c *checkedRole) Check(ctx context.Context, r store.CheckRequest) (store.Report, error) {
	report, err := c.checked.Check(ctx, r)
	if r.Key == c.key {
		err = c.err
	}
	return report, err
}
