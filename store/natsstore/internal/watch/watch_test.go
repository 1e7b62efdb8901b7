package watch_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
)

func TestAWatchBeginsOnceItsNamesAreKnown(t *testing.T) {
	ready := func(w *watch.Watch) bool {
		select {
		case <-w.Ready():
			return true
		default:
			return false
		}
	}
	w := watch.New(func(store.Entry) {}, "a", "b")
	w.Received("a")
	w.Begin()
	if ready(w) || w.Awaits("a") || !w.Awaits("b") {
		t.Error("it began without one of its names")
	}
	w.Received("b")
	if ready(w) {
		t.Error("it began before the delivery had ended")
	}
	w.Begin()
	w.Begin()
	if !ready(w) {
		t.Error("it has not begun")
	}
	w.Await("a")
	if !w.Awaits("a") || !ready(w) {
		t.Error("what is to be delivered again undoes the beginning, or is forgotten")
	}
	if !w.Stop() || w.Stop() || !w.Stopped() || w.Awaits("a") {
		t.Error("a watch that has ended waits for something, or ends twice")
	}
}

func TestAnOlderStateIsBelievedAfterManyDoubtsOrTheLeadersWord(t *testing.T) {
	var d watch.Doubts
	n := 1
	for ; !d.Grow(); n++ {
		if n > 100 {
			t.Fatal("it is never believed")
		}
	}
	if n < 3 {
		t.Errorf("believed after %d", n)
	}
	d = watch.Doubts{}
	d.Confirm()
	if !d.Grow() {
		t.Error("the leader's word is not believed")
	}
}
