package engine

import (
	"testing"
	"testing/synctest"
)

func TestQueueKnowsItsOwnGoroutineAndCallsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c callQueue
		n := 0
		for i := range 100 {
			c.put(ofTerm, func() {
				if n != i || !c.inside() {
					t.Errorf("call %d after %d, inside %v", i, n, c.inside())
				}
				n++
			})
		}
		if c.inside() {
			t.Error("the test is not a callback")
		}
		if idle := c.drained(); idle != nil {
			<-idle
		}
		if n != 100 || c.drained() != nil || c.inside() {
			t.Errorf("%d calls", n)
		}
	})
}
