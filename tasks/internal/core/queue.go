package core

import (
	"cmp"
	"container/heap"
	"slices"
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

// lines are the lines of all classes. Tickets order the tasks of all of them.
type lines struct {
	of     map[class]*line
	ticket uint64
}

// join has a task wait at the end of its class.
func (q *lines) join(t *task, c class) {
	q.ticket++
	t.ticket = q.ticket
	l := q.of[c]
	if l == nil {
		l = &line{class: c}
		q.of[c] = l
	}
	l.wait = append(l.wait, place{t, t.ticket})
}

// leave takes a task out of its line.
func (t *task) leave() { t.ticket = 0 }

// takeKeyed takes out all tasks that wait by their key, in their order.
func (q *lines) takeKeyed() (tasks []*task) {
	for c, l := range q.of {
		if c.kind != 'k' {
			continue
		}
		for t := l.head(); t != nil; t = l.head() {
			tasks = append(tasks, t)
			l.wait = l.wait[1:]
		}
		delete(q.of, c)
	}
	slices.SortFunc(tasks, func(a, b *task) int { return cmp.Compare(a.ticket, b.ticket) })
	return tasks
}

// waiting returns the lines in which a task waits, of the classes that are
// served. It forgets the lines in which none does.
func (q *lines) waiting(served func(class) bool) (h heads) {
	for c, l := range q.of {
		switch {
		case l.head() == nil:
			delete(q.of, c)
		case served(c):
			h = append(h, l)
		}
	}
	heap.Init(&h)
	return h
}

// heads are lines in which a task waits, with the oldest task's line first.
type heads []*line

// Len implements heap.Interface, as the following do.
func (h *heads) Len() int { return len(*h) }

// Swap swaps two lines.
func (h *heads) Swap(i, j int) { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }

// Less reports whether the first task of one waits for longer than the first
// task of the other.
func (h *heads) Less(i, j int) bool { return (*h)[i].wait[0].ticket < (*h)[j].wait[0].ticket }

// Push adds a line.
func (h *heads) Push(x any) {
	if l, ok := x.(*line); ok {
		*h = append(*h, l)
	}
}

// Pop takes the last one.
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
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

// arm sets a timer, and resets it if it was set.
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
