package candidate

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
)

// A recorder writes answers to a file that is mapped into memory: see package
// history. Only one goroutine may use it.
type recorder struct {
	words   []uint64
	current []*row // by candidate
}

// A row is the run that a candidate is in.
type row struct {
	words  []uint64
	answer history.Answer
	last   int64 // when the latest sample began
}

func newRecorder(path string, candidates int) (*recorder, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the mapping stays
	if err := f.Truncate(history.FileBytes); err != nil {
		return nil, err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, history.FileBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(m))), len(m)/8) // a page is aligned
	return &recorder{words: words, current: make([]*row, candidates)}, nil
}

// add records one answer. When the file is full it only continues to count, so
// that a reader of the file notices.
func (r *recorder) add(who int, a history.Answer, s history.Sample) {
	c := r.current[who]
	if c == nil || c.answer != a {
		if c = r.begin(who, a, s); c == nil {
			return
		}
	} else if gap := s.T0 - c.last; gap > int64(c.words[history.WordMaxGap]) {
		atomic.StoreUint64(&c.words[history.WordMaxGap], uint64(gap))
	}
	c.last = s.T0
	atomic.StoreUint64(&c.words[history.WordLast0], uint64(s.T0))
	atomic.StoreUint64(&c.words[history.WordLast1], uint64(s.T1))
	atomic.AddUint64(&c.words[history.WordCount], 1)
}

func (r *recorder) begin(who int, a history.Answer, s history.Sample) *row {
	n := atomic.LoadUint64(&r.words[0])
	atomic.StoreUint64(&r.words[0], n+1)
	if n >= history.MaxRuns {
		return nil
	}
	at := history.HeaderBytes/8 + n*history.RunWords
	c := &row{words: r.words[at : at+history.RunWords], answer: a}
	for i, v := range [...]uint64{
		history.WordWho: uint64(who), history.WordLeader: a.Leader, history.WordCtx: a.Ctx, history.WordWork: a.Work,
		history.WordFirst0: uint64(s.T0), history.WordFirst1: uint64(s.T1),
	} {
		atomic.StoreUint64(&c.words[i], v)
	}
	r.current[who] = c
	return c
}
