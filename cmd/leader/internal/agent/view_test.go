package agent

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// scripted is an election whose status a test sets.
type scripted struct {
	leader.Election

	status atomic.Pointer[leader.ElectionStatus]
}

func (s *scripted) Status() leader.ElectionStatus { return *s.status.Load() }

// A term may start while a view is built. A client to which it was shown as
// stopping would stop the work of a term in which it leads.
func TestNewTermIsNotShownAsStopping(t *testing.T) {
	t.Parallel()
	var over atomic.Uint64 // the latest term that is, or is about to be
	e := &scripted{}
	e.status.Store(&leader.ElectionStatus{})
	c := &candidate{e: e, share: 1, leaseEnd: time.Now().Add(time.Hour)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range uint64(5000) {
			term := leader.Term{Number: n + 1, Token: "t"}
			ctx, cancel := context.WithCancel(t.Context())
			e.status.Store(&leader.ElectionStatus{IsLeader: true, Term: term.Number, Token: term.Token, TrustUntil: time.Now().Add(time.Hour)})
			begun, led := c.news.next(), make(chan struct{})
			go func() { defer close(led); c.lead(ctx, term) }()
			<-begun
			over.Store(term.Number)
			e.status.Store(&leader.ElectionStatus{})
			cancel()
			if err := c.acknowledge(term.Number); err != nil {
				t.Error(err)
			}
			<-led
		}
	}()
	for answer := true; ; answer = !answer {
		select {
		case <-done:
			return
		default:
		}
		if v := c.view(answer); v.StoppingTerm > over.Load() {
			t.Errorf("term %d has just started, and is reported as stopping", v.StoppingTerm)
			<-done
			return
		}
	}
}
