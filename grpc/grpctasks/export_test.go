package grpctasks

import "time"

// SetStall sets after what time the stream of a worker that takes nothing ends.
func (s *Server) SetStall(d time.Duration) { s.stall = d }

// Waiting returns how many messages and items wait for the workers of a group.
func (s *Server) Waiting(group string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.open[group]
	h.mu.Lock()
	defer h.mu.Unlock()
	for st := range h.streams {
		st.out.mu.Lock()
		n += st.out.items
		st.out.mu.Unlock()
	}
	return n
}
