package latest_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/seed-ff2cb582/leader/internal/latest"
)

// taken takes out all, one by one.
func taken[K comparable, V any](q *latest.Queue[K, V]) (all []V) {
	for v, ok := q.Take(); ok; v, ok = q.Take() {
		all = append(all, v)
	}
	return all
}

func expect[V comparable](t *testing.T, got []V, want ...V) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("took %v, want %v", got, want)
	}
}

func TestTheLatestValueOfAKeyTakesThePlaceOfTheOther(t *testing.T) {
	q := latest.New[string, int]()
	q.Put("a", 1)
	q.Put("b", 2)
	q.Put("a", 3)
	expect(t, taken(q), 3, 2)
	if v, ok := q.Take(); ok {
		t.Errorf("took %v from an empty queue", v)
	}
}

func TestTakenKeyIsQueuedAgainAtTheEnd(t *testing.T) {
	q := latest.New[string, int]()
	q.Put("a", 1)
	q.Put("b", 2)
	if v, _ := q.Take(); v != 1 {
		t.Fatalf("took %d first", v)
	}
	q.Put("a", 3)
	expect(t, taken(q), 2, 3)
}

func TestPutLastMovesAKeyBehindAllThatWaits(t *testing.T) {
	q := latest.New[string, int]()
	q.PutLast("end", 1)
	q.Put("a", 2)
	q.PutLast("end", 3)
	q.Put("b", 4)
	expect(t, taken(q), 2, 3, 4)
}

func TestMergeKeepsWhatACallerCannotMiss(t *testing.T) {
	q := latest.New[string, int]()
	q.Merge = func(waiting, next int) int { return waiting + next }
	q.Put("a", 1)
	q.Put("b", 10)
	q.Put("a", 2)
	q.PutLast("a", 4)
	expect(t, taken(q), 10, 7)
	q.Put("a", 8)
	expect(t, taken(q), 8) // what was taken is not merged
}

func TestTakeAllTakesWhatWaitsInOrder(t *testing.T) {
	q := latest.New[string, int]()
	expect(t, q.TakeAll())
	q.Put("a", 1)
	q.Put("b", 2)
	q.Put("a", 3)
	expect(t, q.TakeAll(), 3, 2)
	expect(t, q.TakeAll())
	q.Put("b", 4)
	expect(t, q.TakeAll(), 4)
}

func TestTheWakeChannelHoldsOneSignal(t *testing.T) {
	q := latest.New[int, int]()
	select {
	case <-q.Wake():
		t.Error("an empty queue woke its reader")
	default:
	}
	for i := range 100 {
		q.Put(i, i)
	}
	<-q.Wake()
	select {
	case <-q.Wake():
		t.Error("the reader was woken twice for what it can take at once")
	default:
	}
	q.Put(0, 0)
	<-q.Wake()
}

// TestNoLastValueIsMissed: many writers, one reader that takes whenever it is
// woken. Whatever it skips, of each key it ends up with the last value, and has
// never gone back.
func TestNoLastValueIsMissed(t *testing.T) {
	const writers, values = 8, 2000
	q := latest.New[int, [2]int]()
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for v := range values {
				q.Put(w, [2]int{w, v})
			}
		})
	}
	var last [writers]int
	for missing := writers; missing > 0; {
		<-q.Wake()
		for v, ok := q.Take(); ok; v, ok = q.Take() {
			if v[1] < last[v[0]] {
				t.Fatalf("writer %d: %d after %d", v[0], v[1], last[v[0]])
			}
			last[v[0]] = v[1]
			if v[1] == values-1 {
				missing--
			}
		}
	}
	writing.Wait()
}
