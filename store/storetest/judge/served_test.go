package judge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/rpc"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
)

// maxValue is the size of the largest value that a client sends.
const maxValue = 1 << 20

// A host serves a memory store on a TCP port, and can be killed and frozen as a
// process can. The registers are its disk.
type host struct {
	tb     testing.TB
	st     *memstore.Store
	writes atomic.Int64
	awake  sync.RWMutex // a call holds it for reading, a frozen host for writing
	defect defect

	mu       sync.Mutex
	addr     string
	listener net.Listener
	conns    []net.Conn
	serving  sync.WaitGroup
}

func newHost(tb testing.TB, d defect) *host {
	tb.Helper()
	h := &host{tb: tb, st: memstore.NewWithOptions(memstore.Options{FirstRevision: 1000}), addr: "127.0.0.1:0", defect: d}
	h.Run()
	tb.Cleanup(h.Kill)
	return h
}

func (h *host) Freeze() { h.awake.Lock() }
func (h *host) Thaw()   { h.awake.Unlock() }

// Kill ends all connections and takes no new ones.
func (h *host) Kill() {
	h.mu.Lock()
	_ = h.listener.Close()
	h.listener = nil
	for _, c := range h.conns {
		_ = c.Close()
	}
	h.conns = nil
	h.mu.Unlock()
	h.serving.Wait()
	if h.defect.kill != nil {
		h.defect.kill(h.st)
	}
}

// Run serves on the address of before.
func (h *host) Run() {
	l, err := net.Listen("tcp", h.addr)
	if err != nil {
		h.tb.Fatal(err)
	}
	srv := rpc.NewServer()
	if err := srv.RegisterName("Registers", &api{h}); err != nil {
		h.tb.Fatal(err)
	}
	h.mu.Lock()
	h.listener, h.addr = l, l.Addr().String()
	h.mu.Unlock()
	h.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			dead := h.listener != l // it was killed meanwhile
			if !dead {
				h.conns = append(h.conns, c)
			}
			h.mu.Unlock()
			if dead {
				_ = c.Close()
				return
			}
			h.serving.Go(func() { srv.ServeConn(c) })
		}
	})
}

// failOver has another port serve the registers.
func (h *host) failOver(_ *rand.Rand, lead func(string)) {
	h.Kill()
	h.addr = "127.0.0.1:0"
	h.Run()
	lead(h.addr)
}

// An Answer is what a call comes to.
type Answer struct {
	Entry    store.Entry
	Revision uint64
	Conflict bool
}

// api is what a host's clients may call.
type api struct{ h *host }

func (a *api) Get(key string, to *Answer) (err error) {
	a.h.awake.RLock()
	defer a.h.awake.RUnlock()
	to.Entry, err = a.h.st.Get(context.Background(), key)
	return err
}

func (a *api) Swap(w store.Write, to *Answer) (err error) {
	a.h.awake.RLock()
	defer a.h.awake.RUnlock()
	a.h.writes.Add(1)
	to.Revision, err = a.h.st.CompareAndSwap(context.Background(), w)
	if to.Conflict = errors.Is(err, store.ErrConflict); to.Conflict {
		return nil
	}
	return err
}

// A wire is a connection to a host, made again when it is lost.
type wire struct {
	addr string

	mu     sync.Mutex
	client *rpc.Client
	closed bool
}

// dial returns the connection.
func (w *wire) dial(ctx context.Context) (*rpc.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, store.ErrClosed
	}
	if w.client == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.addr)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrTransient, err)
		}
		w.client = rpc.NewClient(conn)
	}
	return w.client, nil
}

// drop forgets a connection that is lost.
func (w *wire) drop(client *rpc.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client == client {
		w.client = nil
	}
}

func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.client == nil {
		return nil
	}
	defer func() { w.client = nil }()
	return w.client.Close()
}

// call makes a call, whose failure is of the class lost if it was sent.
func (w *wire) call(ctx context.Context, lost error, method string, args any) (*Answer, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrTransient, ctx.Err())
	}
	client, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	call := client.Go("Registers."+method, args, &Answer{}, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", lost, ctx.Err())
	}
	answer, _ := call.Reply.(*Answer)
	if call.Error == nil {
		return answer, nil
	}
	w.drop(client)
	if errors.Is(call.Error, rpc.ErrShutdown) { // it was found to be lost before
		lost = store.ErrTransient
	}
	return nil, fmt.Errorf("%w: %w", lost, call.Error)
}

// A client is a store over a wire.
type client struct {
	*wire
	owns   bool // the wire
	report store.Report
	defect defect

	ended atomic.Bool
}

func (c *client) Close() error {
	c.ended.Store(true)
	if c.owns {
		return c.wire.Close()
	}
	return nil
}

func (c *client) usable(key string) error {
	switch {
	case !store.ValidKey(key) && !c.defect.asksTheServer:
		return fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	case c.ended.Load() && !c.defect.servesOn:
		return store.ErrClosed
	}
	return nil
}

func (c *client) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := c.usable(key); err != nil {
		return store.Entry{}, err
	}
	a, err := c.call(ctx, store.ErrTransient, "Get", key)
	if err != nil {
		return store.Entry{}, err
	}
	a.Entry.Key = key
	return a.Entry, nil
}

func (c *client) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := c.usable(w.Key); err != nil {
		return 0, err
	}
	if len(w.Value) > maxValue {
		return 0, fmt.Errorf("%w: %d bytes", store.ErrInvalid, len(w.Value))
	}
	swap := func(ctx context.Context) (*Answer, error) { return c.call(ctx, store.ErrUnknown, "Swap", w) }
	if c.defect.swap != nil {
		swap = c.defect.swap(c, w, swap)
	}
	a, err := swap(ctx)
	switch {
	case err != nil:
		return 0, err
	case a.Conflict:
		return 0, fmt.Errorf("%w: key %q", store.ErrConflict, w.Key)
	}
	return a.Revision, nil
}

func (c *client) Check(ctx context.Context, r store.CheckRequest) (store.Report, error) {
	_, err := c.Get(ctx, r.Key)
	return c.report, err
}

// subject returns what starts a host, with the defect.
func subject(d defect) func(testing.TB) judge.Subject {
	return func(tb testing.TB) judge.Subject {
		h := newHost(tb, d)
		process := judge.ProcessOf("the host", h)
		process.Forgets = d.forgets
		return judge.Subject{
			Addrs:     []string{h.addr},
			Processes: []judge.Process{process},
			FailOver:  h.failOver,
			Registers: func(tb testing.TB) judge.Registers { return h.registers(tb) },
		}
	}
}

// registers are all of the host's: each claim of the contract has a separate
// host.
func (h *host) registers(tb testing.TB) judge.Registers {
	tb.Helper()
	at := func(tb testing.TB, addr string) store.Store {
		tb.Helper()
		c := &client{wire: &wire{addr: addr}, owns: true, report: h.defect.report, defect: h.defect}
		tb.Cleanup(func() { _ = c.Close() })
		return c
	}
	return judge.Registers{
		At:     at,
		Writes: h.writes.Load,
		Lend: func(tb testing.TB) judge.Loan {
			tb.Helper()
			w := &wire{addr: h.addr}
			tb.Cleanup(func() { _ = w.Close() })
			return judge.Loan{
				Store: &client{wire: w, defect: h.defect},
				Works: func() error { _, err := w.call(tb.Context(), store.ErrTransient, "Get", "any"); return err },
				End:   w.Close,
			}
		},
		Harness: storetest.Harness{
			Open:   func(tb testing.TB) store.Store { return at(tb, h.addr) },
			Delete: func(key string) error { h.st.Delete(key); return nil },
		},
	}
}

var options = judge.Options{
	Histories: 20, Lease: time.Second,
	Cases: []judge.Case{
		judge.Elections, judge.Histories, judge.LostAnswers, judge.Unsent, judge.Invalid, judge.Closed,
		judge.Frozen, judge.Kept, judge.Faults, judge.Outlived,
	},
	Caps: storetest.Caps{MaxValue: maxValue},
}
