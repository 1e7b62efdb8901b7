package announced

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Main runs the tests of a package, or plays the part of a child if the program
// was started as one. open opens an announcer by the arguments of System.Child.
func Main(m *testing.M, run func(*testing.M), open func(group, id string, args []string) (discovery.Announcer, error)) {
	if len(os.Args) < 6 || os.Args[1] != "candidate" && os.Args[1] != "bare" {
		run(m)
		return
	}
	if os.Args[1] == "bare" {
		open = nil
	}
	if err := serve(os.Args[2:6], os.Stdin, os.Stdout, open, os.Args[6:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // it is main's part, and m.Run was not called
	}
}

// serve is a candidate until its parent ends it, with its keeper if there is a
// way to open an announcer.
func serve(as []string, stdin io.Reader, stdout io.Writer, open func(group, id string, args []string) (discovery.Announcer, error), args []string) error {
	url, group, id, at := as[0], as[1], as[2], as[3]
	nc, err := nats.Connect(url, nats.Timeout(natslab.Patience), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	e, err := leader.NewElection(nc, config(group, id, at))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	var failed error
	if open != nil {
		a, err := open(group, id, args)
		if err != nil {
			cancel()
			return err
		}
		kept.Go(func() { failed = discovery.Keep(ctx, e, a, discovery.Options{}) })
	}
	defer kept.Wait()
	defer cancel()
	if err := e.Start(ctx); err != nil {
		return err
	}
	err = harness.Serve(stdin, stdout, "ready")
	cancel()
	kept.Wait()
	return errors.Join(err, failed, e.Stop())
}

func (l *lab) killed() {
	a := l.child("a")
	l.awaitShown("a")
	l.join("b")
	a.Kill()
	l.t.Logf("a client is led to the successor %v after the kill, with a TTL of %v", l.awaitSuccession("b"), TTL)
}

func (l *lab) frozen() {
	a := l.child("a")
	l.awaitShown("a")
	b := l.join("b")
	l.must(a.Signal(syscall.SIGSTOP))
	l.t.Logf("a client is led to the successor %v after the leader froze, with a TTL of %v", l.awaitShown("b"), TTL)
	// When it is awake again, clients are not led there before it leads.
	var seen [][]string
	ctx, done := context.WithCancel(l.t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			shown, err := l.Shown(ctx, l.group)
			if err == nil && (len(seen) == 0 || !slices.Equal(seen[len(seen)-1], shown)) {
				seen = append(seen, shown)
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	l.must(a.Signal(syscall.SIGCONT))
	l.must(transfer(l.t, b, "a"))
	l.awaitShown("a")
	done()
	watching.Wait()
	states := len(seen)
	if states > 0 && len(seen[states-1]) == 1 && seen[states-1][0] == address("a") {
		states--
	}
	for _, shown := range seen[:states] {
		if slices.Contains(shown, address("a")) {
			l.t.Errorf("clients were led to %v, one after the other", seen)
		}
	}
}

func (l *lab) allDead() {
	a := l.child("a")
	l.awaitShown("a")
	a.Kill()
	if l.Expires {
		l.t.Logf("without a candidate the entry is gone %v after the kill, with a TTL of %v", l.awaitShown(), TTL)
		return
	}
	// No live candidate knows of it.
	shown, err := l.Shown(natslab.Within(l.t), l.group)
	l.must(err)
	if !slices.Equal(shown, []string{address("a")}) {
		l.t.Errorf("clients are led to %v", shown)
	}
	end := l.follow()
	l.t.Logf("the entry is gone %v after a follower began, with a TTL of %v", l.awaitShown(), TTL)
	end()
	l.join("b")
	l.awaitShown("b")
}

// survived is the only candidate, which announces itself and dies, and one who
// follows it.
func (l *lab) survived() {
	l.follow()
	a := l.child("a")
	l.awaitShown("a")
	a.Kill()
	l.t.Logf("without a candidate the entry is gone %v after the kill, with a TTL of %v, beside a follower", l.awaitSuccession(), TTL)
}

// outside are candidates that announce nothing, as candidates of other
// programs, and two clients that follow them.
func (l *lab) outside() {
	end := l.follow()
	l.follow()
	a := l.bare("a")
	l.awaitShown("a")
	b := l.bare("b")
	a.Kill()
	l.t.Logf("a client is led to the successor %v after the kill, with a TTL of %v", l.awaitSuccession("b"), TTL)
	end() // the other is enough
	b.Kill()
	l.t.Logf("without a candidate the entry is gone %v after the kill, with a TTL of %v", l.awaitSuccession(), TTL)
}

// beside are candidates that announce themselves, and two who follow them.
func (l *lab) beside() {
	l.follow()
	l.follow()
	a := l.join("a")
	l.awaitShown("a")
	b := l.join("b")
	l.must(transfer(l.t, a, "b"))
	l.awaitShown("b")
	l.must(l.Destroy(natslab.Within(l.t), l.group))
	l.awaitShown("b")
	l.must(a.Stop())
	l.must(b.Stop())
	l.awaitShown()
}
