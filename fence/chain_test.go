package fence

import (
	"testing"
	"testing/synctest"

	"github.com/seed-ff2cb582/leader"
)

// Each term comes while its predecessor works, so that none is without work
// when the next one begins.
func TestGateForgetsTermsWhoseWorkHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		enter := func(n uint64) (leave func()) {
			_, leave, err := g.Enter(t.Context(), leader.Term{Number: n, Token: "a"})
			if err != nil {
				t.Error(err)
			}
			return leave
		}
		leave := enter(1)
		for n := uint64(2); n <= 200; n++ {
			entered := make(chan func())
			go func() { entered <- enter(n) }()
			synctest.Wait() // it waits for its predecessor
			leave()
			leave = <-entered
		}
		defer leave()
		kept := 0
		for w := g.work; w != nil; w = w.before {
			kept++
		}
		if kept > 2 {
			t.Errorf("%d terms are kept, of which one works", kept)
		}
	})
}
