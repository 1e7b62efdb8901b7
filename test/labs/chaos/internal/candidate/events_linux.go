package candidate

import (
	"encoding/json"
	"os"
	"sync"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
)

// A journal writes events to a file, each by one call, so that it is there
// whatever becomes of the process.
type journal struct {
	mu    sync.Mutex
	f     *os.File
	clock clock
}

func newJournal(path string, c clock) (*journal, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{f: f, clock: c}, nil
}

// add writes an event. A candidate that cannot report what it does must not do
// it.
func (j *journal) add(e history.Event) {
	e.Clock = j.clock.reading()
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.f.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}
