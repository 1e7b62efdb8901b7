// Package polled judges what is read of a record over and over, in the place of
// a watch.
package polled

// staleReads is how many reads in a row must show an older state before it is
// believed: one may come from a replica that lags.
const staleReads = 3

// Reads are what the reads of one record have shown so far. A store promises
// that a watch does not go back without a reason. Of reads it does not.
type Reads struct {
	revision uint64
	stale    int // reads in a row that showed an older state
}

// Believe takes in a read, and reports whether it is to be passed on.
func (r *Reads) Believe(revision uint64) bool {
	if revision < r.revision && r.stale < staleReads-1 {
		r.stale++
		return false
	}
	r.revision, r.stale = revision, 0
	return true
}

// Doubted reports whether the last read was not passed on: the next ones decide.
func (r *Reads) Doubted() bool { return r.stale > 0 }
