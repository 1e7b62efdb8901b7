package mysqlstore

import (
	"sync/atomic"
	"time"
)

// A clock follows the server's, in microseconds. It is behind by the time that
// the latest answer took to arrive, and ahead only if the server's clock was set
// back or another server has taken its place. Before the first answer it is near
// zero.
type clock struct {
	lead atomic.Int64 // over the time since the program started
}

// started is the zero of a clock that does not jump.
var started = time.Now() //nolint:gochecknoglobals // it is constant

// saw sets the clock by an answer that has just arrived.
func (c *clock) saw(server uint64) { c.lead.Store(int64(server) - time.Since(started).Microseconds()) }

func (c *clock) now() uint64 {
	return uint64(max(c.lead.Load()+time.Since(started).Microseconds(), 0))
}
