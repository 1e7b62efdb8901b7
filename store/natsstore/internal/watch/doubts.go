package watch

import "time"

// maxDoubts is how often in a row a key may show an older state than the known
// one before the older state is believed, for a stream which was not made
// again.
const maxDoubts = 4

// Leaderless is how long a stream is taken to have no leader that could answer:
// the servers of a cluster elect one within 4 to 9 s of the last (nats-server's
// raft.go), and need a moment more where several are restarted. From then on
// the user counts as one who may not ask.
const Leaderless = 15 * time.Second

// Doubts count how often in a row a key showed an older state than the known
// one. Once is not enough to believe it: the replica that answers may lag
// behind, and the stream's leader itself may store a record a little later than
// the replica from which it came.
type Doubts struct {
	n     int
	since time.Time // the first
}

// Any reports whether there are any.
func (d *Doubts) Any() bool { return d.n > 0 }

// Grow counts once more, and reports whether the older state is to be believed.
func (d *Doubts) Grow() bool {
	if d.n == 0 {
		d.since = time.Now()
	}
	d.n++
	return d.n > maxDoubts
}

// Confirm has the next older state believed, for the stream's leader shows it,
// too.
func (d *Doubts) Confirm() { d.n = maxDoubts }

// Unanswered takes in that the stream's leader, which might have contradicted,
// did not answer. For as long as the stream may have none, a replica that lags
// shows nothing, however often it is read.
func (d *Doubts) Unanswered() {
	if time.Since(d.since) < Leaderless {
		d.n = min(d.n, 1)
	}
}
