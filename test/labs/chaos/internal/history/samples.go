// Package history holds what a run of the fire lab leaves behind, and judges
// it.
//
// Everything in it is an instant of the machine's monotonic clock, in
// nanoseconds, which all processes of the machine share. The judge knows
// nothing of the library but the guarantees in docs/reference/protocol.md.
package history

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A Sample is when a candidate was asked: readings of the clock from just
// before and just after. The process may have been stopped in between, for any
// length; the answer is about some instant of that time.
type Sample struct{ T0, T1 int64 }

// Unknown is the number of an unnamed term, of a candidate that reported that
// it leads.
const Unknown = 1<<64 - 1

// An Answer is a candidate's answer to a sample. 0 means no.
type Answer struct {
	Leader uint64 // the term in which IsLeader is true
	Ctx    uint64 // the term whose context has no error
	Work   uint64 // the term whose work runs: from the call of OnPromote to the return of OnDemote
}

// A Run is a row of equal answers of one candidate.
type Run struct {
	Who    int // the candidate, by its index among the candidates of the process
	Answer Answer
	First  Sample
	Last   Sample
	Count  uint64
	// MaxGap is the longest time from the beginning of one sample of the run to
	// the beginning of the next.
	MaxGap int64
}

// A file of samples is a number of runs, and the runs. It lies in memory that
// the process shares with the file, so that what was sampled is there for
// others at once and stays when the process is killed. All words have 64 bits,
// in the machine's order, and are written one by one: of a run that was being
// written when its process was killed each word is either the old one or the
// new one, and both are true.
const (
	wordBytes = 8
	// HeaderBytes is the size of the part that precedes the runs: the number of
	// runs started.
	HeaderBytes = wordBytes
	// RunWords is the number of words of a run.
	RunWords = 10
	// MaxRuns is how many runs a file has room for.
	MaxRuns = 200_000
	// FileBytes is the size of a file, most of which is never written.
	FileBytes = HeaderBytes + MaxRuns*RunWords*wordBytes
)

// The words of a run.
const (
	WordWho = iota
	WordLeader
	WordCtx
	WordWork
	WordFirst0
	WordFirst1
	WordLast0
	WordLast1
	WordCount
	WordMaxGap
)

// ErrFull means that the process sampled more runs than its file holds, and
// nothing is known of the rest.
var ErrFull = errors.New("history: the file of samples is full")

// Runs reads a file of samples.
func Runs(file []byte) ([]Run, error) {
	if len(file) < HeaderBytes {
		return nil, fmt.Errorf("history: a file of samples of %d bytes", len(file))
	}
	n := Begun(file)
	if n >= MaxRuns {
		return nil, ErrFull
	}
	runs := make([]Run, 0, n)
	for i := range n {
		if r := At(file, i); r.Count > 0 { // it may have been started and not written
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// Begun returns the number of runs in a file.
func Begun(file []byte) int { return int(binary.NativeEndian.Uint64(file)) }

// At returns the run at a place in a file.
func At(file []byte, i int) Run {
	words := file[HeaderBytes+i*RunWords*wordBytes:]
	word := func(n int) uint64 { return binary.NativeEndian.Uint64(words[n*wordBytes:]) }
	return Run{
		Who:    int(word(WordWho)),
		Answer: Answer{word(WordLeader), word(WordCtx), word(WordWork)},
		First:  Sample{int64(word(WordFirst0)), int64(word(WordFirst1))},
		Last:   Sample{int64(word(WordLast0)), int64(word(WordLast1))},
		Count:  word(WordCount),
		MaxGap: int64(word(WordMaxGap)),
	}
}
