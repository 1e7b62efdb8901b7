package grpctasks

import "time"

// SetStall sets after what time the stream of a worker that takes nothing ends.
func (s *Server) SetStall(d time.Duration) { s.stall = d }
