package natsfence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

func TestAFailureThatMayHaveBeenAppliedIsTold(t *testing.T) {
	unknown := fmt.Errorf("%w: no answer", store.ErrUnknown)
	away, ended := fmt.Errorf("%w: away", store.ErrTransient), fmt.Errorf("%w: ended", store.ErrTransient)
	for _, c := range []struct {
		before, last error
		over         bool
		want         error
	}{
		{nil, away, false, away},
		{nil, ended, true, ended},
		{errInFlight, away, false, away},
		{away, ended, true, away},
		{unknown, away, false, unknown},
		{unknown, ended, true, unknown},
		{errInFlight, unknown, false, unknown},
		{away, unknown, true, unknown},
	} {
		if got := telling(c.before, c.last, c.over); !errors.Is(got, c.want) {
			t.Errorf("%v, and then %v (ended: %v): %v", c.before, c.last, c.over, got)
		}
	}
}
