package core

import (
	"container/heap"
	"slices"
	"strings"
	"time"
)

// A class is a kind of tasks of which any that waits is as good for a worker as
// the first.
type class struct {
	kind byte // 'a': any worker; 'l': one with the label; 'w': the worker; 'k': the worker that has the keys
	name string
}

// A place is where a task waits. It counts while the task has the ticket.
type place struct {
	t      *task
	ticket uint64
}

// A line is the tasks of a class that wait, in the order in which they came.
type line struct {
	class class
	wait  []place
}

// head returns the first that waits, nil if none does.
func (l *line) head() *task {
	for len(l.wait) > 0 {
		if p := l.wait[0]; p.t.ticket == p.ticket {
			return p.t
		}
		l.wait = l.wait[1:]
	}
	return nil
}

// lines are those of all classes, in a fixed order.
type lines struct {
	all    []*line
	ticket uint64
}

// join has a task wait at the end of its class.
func (q *lines) join(t *task, c class) {
	q.ticket++
	t.ticket = q.ticket
	i, found := slices.BinarySearchFunc(q.all, c, func(l *line, c class) int {
		if l.class.kind != c.kind {
			return int(l.class.kind) - int(c.kind)
		}
		return strings.Compare(l.class.name, c.name)
	})
	if !found {
		q.all = slices.Insert(q.all, i, &line{class: c})
	}
	q.all[i].wait = append(q.all[i].wait, place{t, t.ticket})
}

// leave takes a task out of its line.
func (t *task) leave() { t.ticket = 0 }

// rehash takes out all tasks that wait by their key, in their order.
func (q *lines) rehash() (moved []*task) {
	q.all = slices.DeleteFunc(q.all, func(l *line) bool {
		if l.class.kind != 'k' {
			return false
		}
		for l.head() != nil {
			moved = append(moved, l.wait[0].t)
			l.wait = l.wait[1:]
		}
		return true
	})
	slices.SortFunc(moved, func(a, b *task) int {
		if a.ticket < b.ticket {
			return -1
		}
		return 1
	})
	return moved
}

// tidy forgets classes of which nobody waits.
func (q *lines) tidy() {
	q.all = slices.DeleteFunc(q.all, func(l *line) bool { return l.head() == nil })
}

// A timer is something that is due.
type timer struct {
	at   time.Duration
	seq  uint64 // equal times go in the order in which they were set
	do   func(now time.Duration)
	heap int // its index, -1 when it is not set
}

// timers are those that are set, the next one first.
type timers struct {
	set []*timer
	seq uint64
}

// arm sets a timer, anew if it was set.
func (h *timers) arm(t **timer, at time.Duration, do func(now time.Duration)) {
	h.stop(*t)
	h.seq++
	*t = &timer{at: at, seq: h.seq, do: do}
	heap.Push(h, *t)
}

// stop takes a timer back.
func (h *timers) stop(t *timer) {
	if t != nil && t.heap >= 0 {
		heap.Remove(h, t.heap)
	}
}

// due takes out the first timer if its time has come.
func (h *timers) due(now time.Duration) *timer {
	if len(h.set) == 0 || h.set[0].at > now {
		return nil
	}
	t, _ := heap.Pop(h).(*timer)
	return t
}

// next returns when the first is due, and whether any is set.
func (h *timers) next() (at time.Duration, ok bool) {
	if len(h.set) == 0 {
		return 0, false
	}
	return h.set[0].at, true
}

// Len implements heap.Interface, as the following do.
func (h *timers) Len() int { return len(h.set) }

// Swap swaps two timers.
func (h *timers) Swap(i, j int) {
	h.set[i], h.set[j] = h.set[j], h.set[i]
	h.set[i].heap, h.set[j].heap = i, j
}

// Less reports whether one is due before another.
func (h *timers) Less(i, j int) bool {
	a, b := h.set[i], h.set[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// Push adds a timer.
func (h *timers) Push(x any) {
	if t, ok := x.(*timer); ok {
		t.heap = len(h.set)
		h.set = append(h.set, t)
	}
}

// Pop takes the last one.
func (h *timers) Pop() any {
	last := h.set[len(h.set)-1]
	h.set = h.set[:len(h.set)-1]
	last.heap = -1
	return last
}
