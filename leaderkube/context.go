package leaderkube

import (
	"context"

	"github.com/seed-ff2cb582/leader"
)

// A binding is a context that ends with a term.
type binding struct {
	cancel context.CancelCauseFunc
	// after is a campaign whose loop had ended before: the end of its term is
	// not this one's. nil: there was none.
	after *campaign
	// returned is closed when the function of Run has returned. nil: there is
	// none.
	returned chan struct{}
}

// bind returns a copy of parent that ends when client-go loses the lock.
func (l *core) bind(parent context.Context, b *binding) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	b.cancel = cancel
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		cancel(ErrClosed)
		return ctx
	}
	if c := l.now; c != nil && c.leaving() {
		b.after = c
	}
	l.bound[b] = struct{}{}
	if b.returned != nil {
		l.runs[b] = struct{}{}
	}
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.bound, b)
	})
	return ctx
}

// lose ends the contexts of the campaign's loop, and of all for nil.
func (l *core) lose(c *campaign, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for b := range l.bound {
		if c == nil || b.after != c {
			b.cancel(cause)
			delete(l.bound, b)
		}
	}
}

// run calls a function of Run.
func (l *core) run(parent context.Context, start func(context.Context) error) error {
	b := &binding{returned: make(chan struct{})}
	ctx := l.bind(parent, b)
	defer func() {
		b.cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.runs, b)
		close(b.returned)
	}()
	return start(ctx)
}

// runsOf returns the functions of Run by which the campaign's loop may run.
func (l *core) runsOf(c *campaign) (runs []*binding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for b := range l.runs {
		if b.after != c {
			runs = append(runs, b)
		}
	}
	return runs
}

// work calls a function of Leading.
func (l *core) work(ctx context.Context, work func(context.Context)) {
	c := l.current()
	if c == nil {
		return
	}
	term, ok := c.enter()
	if !ok {
		return
	}
	defer c.leave()
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(term, func() { cancel(context.Cause(term)) })()
	work(working{both, term, termKey()})
}

// enter notes that a function works in the present term, if client-go holds the
// lock in it.
func (c *campaign) enter() (term context.Context, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term == nil || !c.granted || c.lost || c.term.Err() != nil {
		return nil, false
	}
	c.working++
	return c.term, true
}

func (c *campaign) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working--
	c.moved.Broadcast()
}

// A working context is client-go's context, which the end of the term cancels,
// too. Its Err returns an error as soon as the term's Err does, even where the
// timers of the process were suspended.
type working struct {
	context.Context
	term context.Context
	key  any // of the term's number and token
}

func (w working) Err() error {
	if err := w.term.Err(); err != nil {
		return err
	}
	return w.Context.Err()
}

// Value prefers client-go's values except for the term: the program may run
// within a term of another election, whose token does not protect the resources
// of this one.
func (w working) Value(key any) any {
	if key != w.key {
		if v := w.Context.Value(key); v != nil {
			return v
		}
	}
	return w.term.Value(key)
}

// termKey returns the key of terms in contexts, which package leader keeps to
// itself.
func termKey() any {
	asked := &question{Context: context.Background()}
	leader.TermFromContext(asked)
	return asked.key
}

// A question is a context that notes what it is asked for.
type question struct {
	context.Context
	key any
}

func (q *question) Value(key any) any {
	q.key = key
	return nil
}
