package boottime

import "time"

// A ticker is the alarm where there is no better one. It rings with every Tick.
type ticker struct {
	t    *time.Ticker
	done chan struct{}
}

func newTicker() *ticker { return &ticker{time.NewTicker(Tick), make(chan struct{})} }

func (t *ticker) set(int64) {}

func (t *ticker) wait() bool {
	select {
	case <-t.t.C:
		return true
	case <-t.done:
		return false
	}
}

func (t *ticker) close() {
	t.t.Stop()
	close(t.done)
}

// wallNow reads the wall clock, which runs on during a suspension.
func wallNow() int64 { return time.Now().UnixNano() }
