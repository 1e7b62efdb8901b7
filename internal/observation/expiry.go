package observation

import "container/heap"

// expiries is a heap of the groups that somebody leads, the one whose lease
// runs out first on top.
type expiries []*observedGroup

// place puts a group where its Until belongs, or takes it out if nobody leads.
func (x *expiries) place(s *observedGroup) {
	switch held := s.last.ID != ""; {
	case held && s.index < 0:
		heap.Push(x, s)
	case held:
		heap.Fix(x, s.index)
	case s.index >= 0:
		heap.Remove(x, s.index)
	}
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (x *expiries) Len() int           { return len(*x) }
func (x *expiries) Less(i, j int) bool { return (*x)[i].last.Until.Before((*x)[j].last.Until) }
func (x *expiries) Swap(i, j int) {
	h := *x
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (x *expiries) Push(s any) {
	g := s.(*observedGroup) //nolint:errcheck,forcetypeassert // only place pushes
	g.index = len(*x)
	*x = append(*x, g)
}

func (x *expiries) Pop() any {
	last := len(*x) - 1
	s := (*x)[last]
	(*x)[last] = nil
	*x = (*x)[:last]
	s.index = -1
	return s
}
