package writes_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/writes"
)

func TestAnAnswerConcludesItsWriteOnce(t *testing.T) {
	l := newLab(t)
	a, b := l.begin("a"), l.begin("b")
	toA, toB := l.sent(), l.sent()
	l.answer(toB, 8)
	b.is(8, nil)
	l.answer(toB, 9) // a second answer
	l.answer(toA, 10)
	a.is(10, nil)
	b.once()
}

func TestARefusalIsTheOwnersToSettle(t *testing.T) {
	l := newLab(t)
	settled := errors.New("settled")
	l.owner.settle = func(w store.Write, err error) (uint64, error) {
		return 0, fmt.Errorf("%w: %s: %w", settled, w.Key, err)
	}
	a := l.begin("a")
	l.reply(l.sent(), `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"}}`)
	if err := a.end().err; !errors.Is(err, settled) || !strings.Contains(err.Error(), ": a: ") || !strings.Contains(err.Error(), "wrong last sequence") {
		t.Error(err)
	}
}

// A lost answer leaves the outcome open. The owner asks, while there is time.
func TestAWriteWithoutAnAnswerIsTheOwnersToSettle(t *testing.T) {
	l := newLab(t)
	var cause error
	l.owner.settle = func(_ store.Write, err error) (uint64, error) { cause = err; return 7, nil }
	a := l.beginBy("a", time.Now().Add(50*time.Millisecond))
	to := l.sent()
	a.is(7, nil)
	if !errors.Is(cause, context.DeadlineExceeded) {
		t.Errorf("it was settled after %v", cause)
	}
	l.answer(to, 8) // too late
	b := l.begin("b")
	l.answer(l.sent(), 9)
	b.is(9, nil)
	a.once()
}

func TestAWriteThatMayNotBeSentStaysHere(t *testing.T) {
	l := newLab(t)
	refused := errors.New("refused")
	l.owner.sendable = func(w store.Write) error {
		if w.Key == "a" {
			return refused
		}
		return nil
	}
	a, b := l.begin("a"), l.begin("b")
	a.is(0, refused)
	to := l.sent()
	if to.key != "b" {
		t.Errorf("the server got %q", to.key)
	}
	l.answer(to, 3)
	b.is(3, nil)
}

// A write that has not left may be given up without a doubt, and then never
// leaves.
func TestAWriteThatIsGivenUpBeforeItLeavesIsNotSent(t *testing.T) {
	l := newLab(t)
	stuck, free := l.hold("a")
	a := l.begin("a")
	receive(t, stuck, "the sending of a")
	b, c := l.begin("b"), l.begin("c")
	b.Cancel()
	b.is(0, store.ErrTransient)
	free()
	for i, want := range []string{"a", "c"} {
		to := l.sent()
		if to.key != want {
			t.Errorf("the server got %q, not %q", to.key, want)
		}
		l.answer(to, uint64(i+1))
	}
	a.is(1, nil)
	c.is(2, nil)
	b.once()
}

func TestAWriteThatLeftIsGivenUpByAskingTheOwner(t *testing.T) {
	l := newLab(t)
	l.owner.settle = func(_ store.Write, err error) (uint64, error) { return 0, fmt.Errorf("%w: %w", store.ErrUnknown, err) }
	a := l.begin("a")
	l.sent()
	a.Cancel()
	if err := a.end().err; !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	a.Cancel()
	a.once()
}

// The subscription is there for as long as an answer may come.
// A refusal is looked into, which takes until the deadline where nobody answers.
func TestAWriteThatIsSettledMayBeGivenUp(t *testing.T) {
	l := newLab(t)
	asking := make(chan struct{})
	l.owner.asking = func(ctx context.Context) (uint64, error) {
		close(asking)
		<-ctx.Done()
		return 0, fmt.Errorf("%w: %w", store.ErrUnknown, ctx.Err())
	}
	a := l.beginBy("a", time.Now().Add(time.Hour))
	l.reply(l.sent(), `{"error":{"code":503,"err_code":10077,"description":"insufficient resources"}}`)
	receive(t, asking, "the question of the owner")
	a.Cancel()
	a.is(0, context.Canceled)
	a.once()
}

func TestRetiredWritesTakeInTheirAnswersAndNoNewWrite(t *testing.T) {
	l := newLab(t)
	a := l.begin("a")
	to := l.sent()
	l.writes.Retire()
	l.writes.Retire()
	l.writes.Wait()
	if _, ok := l.writes.Begin(time.Now().Add(patience), store.Write{Key: "b"}, nil); ok {
		t.Error("a write was begun after the end")
	}
	select {
	case <-l.unsubscribed:
		t.Fatal("the subscription ended before the answer came")
	default:
	}
	l.answer(to, 4)
	a.is(4, nil)
	receive(t, l.unsubscribed, "the end of the subscription")
}

// Writes that began before the end are sent.
func TestWritesThatHaveStartedAreSentAtTheEnd(t *testing.T) {
	l := newLab(t)
	stuck, free := l.hold("a")
	a := l.begin("a")
	receive(t, stuck, "the sending of a")
	b := l.begin("b")
	l.writes.Retire()
	free()
	for range 2 {
		l.answer(l.sent(), 1)
	}
	a.is(1, nil)
	b.is(1, nil)
	l.writes.Wait()
}

func TestAPanicConcludesItsWriteAlone(t *testing.T) {
	l := newLab(t)
	l.owner.sendable = func(w store.Write) error {
		if w.Key == "a" {
			panic("sendable")
		}
		return nil
	}
	l.owner.settle = func(store.Write, error) (uint64, error) { panic("settle") }
	a := l.begin("a")
	a.is(0, store.ErrTransient)
	b := l.begin("b")
	l.reply(l.sent(), "neither an answer nor a refusal")
	b.is(0, store.ErrUnknown)
	told := make(chan struct{})
	if _, ok := l.writes.Begin(time.Now().Add(patience), store.Write{Key: "c"}, func(uint64, error) { close(told); panic("done") }); !ok {
		t.Fatal("it was not begun")
	}
	l.answer(l.sent(), 1)
	receive(t, told, "the end of c")
	d := l.begin("d")
	l.answer(l.sent(), 2)
	d.is(2, nil)
	for _, want := range []string{"sendable", "settle", "done"} {
		if got := receive(t, l.owner.panics, "a panic"); got != want {
			t.Errorf("the panic %v was reported, not %s", got, want)
		}
	}
}

// patience is the deadline of what is to happen.
const patience = time.Minute

// An owner does what its test sets.
type owner struct {
	sendable func(store.Write) error
	settle   func(store.Write, error) (uint64, error)
	asking   func(context.Context) (uint64, error) // in place of settle
	panics   chan any
}

func (o *owner) Sendable(w store.Write, _ time.Time) error {
	if o.sendable == nil {
		return nil
	}
	return o.sendable(w)
}

func (o *owner) Settle(ctx context.Context, _ attend.Report, w store.Write, err error) (uint64, error) {
	if o.asking != nil {
		return o.asking(ctx)
	}
	return o.settle(w, err)
}

func (o *owner) Panicked(_ string, value any, _ []byte) { o.panics <- value }

// A lab has writes on a connection of the client library, and the test at its
// other end.
type lab struct {
	t            *testing.T
	owner        owner
	writes       *writes.Writes
	far          net.Conn
	arrived      chan message
	unsubscribed chan struct{}
}

// A message is a write as the server gets it.
type message struct{ key, sid, reply string }

func newLab(t *testing.T) *lab {
	t.Helper()
	near, far := net.Pipe()
	l := &lab{
		t: t, owner: owner{panics: make(chan any, 8)}, far: far,
		arrived: make(chan message, 8), unsubscribed: make(chan struct{}, 8),
	}
	go l.serve()
	nc, err := nats.Connect("", nats.InProcessServer(dialed{near}), nats.NoReconnect(), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	attendant := attend.New(func() attend.Report { return attend.ReportOf(nc) }, nc.NewInbox(), func(f func()) func() { return f })
	l.writes = writes.New(&l.owner, nc, wire.NewNames("bucket", ""), attendant)
	t.Cleanup(func() {
		l.writes.Retire()
		l.writes.Wait()
	})
	return l
}

type dialed struct{ net.Conn }

func (d dialed) InProcessConn() (net.Conn, error) { return d.Conn, nil }

// serve speaks as much of the protocol of NATS as writes need.
func (l *lab) serve() {
	in, sid := bufio.NewReader(l.far), ""
	l.write(`INFO {"server_id":"S","version":"2.12.0","headers":true,"max_payload":1048576}` + "\r\n")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch words := strings.Fields(line); words[0] {
		case "PING":
			l.write("PONG\r\n")
		case "SUB":
			sid = words[2]
		case "UNSUB":
			l.unsubscribed <- struct{}{}
		case "HPUB": // subject, reply, length of the headers, of all
			n, err := strconv.Atoi(words[4])
			if err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, in, int64(n)+2); err != nil {
				return
			}
			l.arrived <- message{key: strings.TrimPrefix(words[1], "$KV.bucket."), sid: sid, reply: words[2]}
		}
	}
}

// hold has the sending of the write of a key wait until it is let go.
func (l *lab) hold(key string) (stuck <-chan struct{}, free func()) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	l.owner.sendable = func(w store.Write) error {
		if w.Key == key {
			close(reached)
			<-goOn
		}
		return nil
	}
	free = sync.OnceFunc(func() { close(goOn) })
	l.t.Cleanup(free)
	return reached, free
}

func (l *lab) write(text string) { _, _ = l.far.Write([]byte(text)) }

func (l *lab) reply(to message, text string) {
	l.write(fmt.Sprintf("MSG %s %s %d\r\n%s\r\n", to.reply, to.sid, len(text), text))
}

func (l *lab) answer(to message, revision uint64) {
	l.reply(to, fmt.Sprintf(`{"stream":"KV_bucket","seq":%d}`, revision))
}

func (l *lab) sent() message {
	l.t.Helper()
	return receive(l.t, l.arrived, "a write")
}

// An outcome is the result that a write reported.
type outcome struct {
	revision uint64
	err      error
}

// A flight is a write of a lab.
type flight struct {
	*writes.Flight

	t    *testing.T
	ends chan outcome
}

func (l *lab) begin(key string) flight { return l.beginBy(key, time.Now().Add(patience)) }

func (l *lab) beginBy(key string, deadline time.Time) flight {
	l.t.Helper()
	f := flight{t: l.t, ends: make(chan outcome, 2)}
	var ok bool
	f.Flight, ok = l.writes.Begin(deadline, store.Write{Key: key, Value: []byte("value")}, func(revision uint64, err error) {
		f.ends <- outcome{revision, err}
	})
	if !ok {
		l.t.Fatalf("the write of %s was not begun", key)
	}
	return f
}

func (f flight) end() outcome {
	f.t.Helper()
	return receive(f.t, f.ends, "the end of a write")
}

func (f flight) is(revision uint64, want error) {
	f.t.Helper()
	if o := f.end(); o.revision != revision || !errors.Is(o.err, want) {
		f.t.Errorf("the write ended with %d, %v, not %d, %v", o.revision, o.err, revision, want)
	}
}

// once: the write reported a single end, which was taken.
func (f flight) once() {
	f.t.Helper()
	select {
	case o := <-f.ends:
		f.t.Errorf("the write was told of another end: %d, %v", o.revision, o.err)
	default:
	}
}

func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}
