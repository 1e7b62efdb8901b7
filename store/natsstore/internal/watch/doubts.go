package watch

// maxDoubts is how often in a row a key may show an older state than the known
// one before that is believed of a stream which was not made anew.
const maxDoubts = 4

// Doubts count how often in a row a key showed an older state than the known
// one. Once is not enough to believe it: the replica that answers may lag
// behind, and the stream's leader itself may store a record a little later than
// the replica from which it came.
type Doubts int

// Grow counts once more, and reports whether the older state is to be believed.
func (d *Doubts) Grow() bool {
	*d++
	return *d > maxDoubts
}

// Confirm has the next older state believed, for the stream's leader shows it,
// too.
func (d *Doubts) Confirm() { *d = maxDoubts }
