//go:build unix

package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/candidate"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/guard"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/process"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// An election that ends by itself is over. Then leader run ends, so that its
// supervisor starts it again, and does not wait for ever.
func TestRunEndsWithItsElection(t *testing.T) {
	cfg := leader.ElectionConfig{
		Group: "g", InstanceID: "a", TTL: time.Minute, HeartbeatInterval: time.Second,
		// Ends the election's goroutine, which counts as a panic of the
		// library.
		Hooks: leader.Hooks{Transition: func(leader.Transition) { runtime.Goexit() }},
	}
	e, err := leader.NewElectionWithStore(memstore.New(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	r := &runner{c: &Command{}, cfg: cfg, session: &app.Session{}, candidacies: []*candidacy{{e: e, group: "g"}}, known: make(map[string]leader.LeaderInfo), err: &said, result: make(chan int, 1), shells: make(map[int]struct{})}
	ended := make(chan error, 1)
	go func() { ended <- r.elect(t.Context(), e) }()
	select {
	case err := <-ended:
		if !errors.Is(err, leader.ErrPanicked) {
			t.Error(err)
		}
		if strings.Count(said.String(), "\n") != 1 { // the groups of its candidates
			t.Errorf("%q", said.String())
		}
	case <-time.After(time.Minute):
		t.Error("it waits")
		_ = e.Stop()
	}
}

// A signal that comes before leader run asks for them has ended the context,
// and is not delivered again. Its sender would wait without success, and reads
// the signal from the exit status.
func TestASignalBeforeAnythingElseEndsIt(t *testing.T) {
	for name, early := range map[string]struct {
		cause error
		want  syscall.Signal
	}{
		"interrupted":         {app.SignalError{Signal: syscall.SIGINT}, syscall.SIGINT},
		"its reader has left": {nil, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			c := Command{Group: "g", Program: []string{"true"}, Cgroup: process.CgroupOff, Flags: candidate.Flags{ID: "a", Target: app.Target{
				Kit:   app.Kit{Settings: func(f natsconn.Flags) (natsconn.Settings, error) { return natsconn.Settings{URL: f.Server}, nil }},
				Flags: natsconn.Flags{Server: "nats://127.0.0.1:1"}, Bucket: "leaders", Timeout: time.Minute,
			}}}
			ctx, end := context.WithCancelCause(t.Context())
			end(early.cause)
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx, app.Streams{Out: io.Discard, Err: io.Discard}) }()
			select {
			case err := <-ended:
				if exit, ok := errors.AsType[*app.ExitError](err); !ok || exit.Code != guard.ExitSignal+int(early.want) {
					t.Errorf("%v: %+v", err, exit)
				}
			case <-time.After(time.Minute):
				t.Error("it waits for its server")
			}
		})
	}
}

// both are the elections of two slots.
type both [2]leader.Election

func (b both) Start(ctx context.Context) error {
	return errors.Join(b[0].Start(ctx), b[1].Start(ctx))
}

func (b both) StopWithContext(ctx context.Context, opts leader.StopOptions) error {
	return errors.Join(b[0].StopWithContext(ctx, opts), b[1].StopWithContext(ctx, opts))
}

// With --slots the program may run in another slot than that whose election
// ended by itself. It is asked to end, as at any other end, before leader run
// leaves: its guard would kill it at once.
func TestNoSlotIsLeftWhenTheElectionOfAnotherHasEnded(t *testing.T) {
	st := memstore.New()
	var all both
	r := &runner{c: &Command{}, session: &app.Session{}, known: make(map[string]leader.LeaderInfo), err: io.Discard, result: make(chan int, 1), shells: make(map[int]struct{})}
	r.c.Timeout = time.Minute
	follows := make(chan struct{})
	follow := sync.OnceFunc(func() { close(follows) })
	for i, group := range []string{"g.1", "g.2"} {
		cfg := leader.ElectionConfig{Group: group, InstanceID: "a", TTL: time.Minute, HeartbeatInterval: time.Second}
		cfg.Hooks.Transition = func(leader.Transition) {
			if group == "g.2" { // it takes part
				follow()
				return
			}
			<-follows
			runtime.Goexit() // a panic of the library
		}
		e, err := leader.NewElectionWithStore(st, cfg)
		if err != nil {
			t.Fatal(err)
		}
		all[i], r.cfg = e, cfg
		r.candidacies = append(r.candidacies, &candidacy{e: e, group: group, slot: i + 1})
	}
	if err := r.elect(t.Context(), all); !errors.Is(err, leader.ErrPanicked) {
		t.Error(err)
	}
	select {
	case <-all[1].Done():
	default:
		t.Error("the other election is left")
		_ = all[1].Stop()
	}
}

// A run that was noted has not started if its term ended before the program
// started. The note is seen again then: with each other change of the control
// record, and when the watch is connected again.
func TestARunThatThisHostNotedItselfDoesNotEndIt(t *testing.T) {
	for own, want := range map[bool]int{true: 0, false: 1} {
		synctest.Test(t, func(t *testing.T) {
			s, c := memstore.New(), &Command{Once: true, Group: "g"}
			c.Timeout = time.Second
			r := &runner{c: c, cfg: leader.ElectionConfig{InstanceID: "a"}, err: io.Discard, result: make(chan int, 1)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r.beginPeriod(ctx)
			r.runs = r.register(s, untold)
			r.limit(ctx)
			noter := r.runs
			if !own {
				other := &runner{c: c, cfg: leader.ElectionConfig{InstanceID: "b"}, period: r.period}
				noter = other.register(s, untold)
			}
			if !r.mayLead() {
				t.Fatal("no term begins")
			}
			if by, err := noter.Note(ctx, 7); by != nil || err != nil {
				t.Fatalf("noted before by %+v, error %v", by, err)
			}
			synctest.Wait() // for the watch's report, which does not count in a term
			r.leads = false
			for _, key := range []string{inspect.RanKey("g"), inspect.ControlKey("g")} {
				e, err := s.Get(ctx, key)
				if err == nil {
					_, err = s.CompareAndSwap(ctx, store.Write{Key: key, Expected: e.Revision, Value: e.Value})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if got := len(r.result); got != want {
				t.Errorf("noted by itself: %v; it ends: %d, want %d", own, got, want)
			}
			// It may lead again, and does begin the run then.
			if by, err := r.runs.Note(ctx, 8); (by == nil) != own || err != nil {
				t.Errorf("noted by itself: %v; in the next term before by %+v, error %v", own, by, err)
			}
		})
	}
}

// A signal to a program is not for the one that runs next, which may not have a
// handler yet.
func TestASignalOfBeforeDoesNotReachTheNextProgram(t *testing.T) {
	r := &runner{result: make(chan int, 1), parent: guard.Parent{Passing: make(chan syscall.Signal, 16)}}
	if !r.begin(t.Context()) {
		t.Fatal("no program may start")
	}
	r.receive(syscall.SIGUSR1) // which its guard was too late to take
	if told := r.end(); told != 0 || !r.begin(t.Context()) {
		t.Fatalf("asked to end by signal %d", told)
	}
	if got := len(r.parent.Passing); got != 0 {
		t.Errorf("%d signals of before", got)
	}
	r.receive(syscall.SIGUSR2)
	if got := <-r.parent.Passing; got != syscall.SIGUSR2 {
		t.Errorf("it gets signal %d", got)
	}
}

// The end of leader run ends the term, too, a moment later.
func TestNoProgramBeginsOnceLeaderRunEnds(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r := &runner{result: make(chan int, 1)}
	if r.begin(over) {
		t.Error("a program may start in a term that is over")
	}
	r.finish(128 + int(syscall.SIGHUP))
	if r.begin(t.Context()) {
		t.Error("a program may start although leader run ends")
	}
}

// A reader of "waits" expects a host that may lead again. Its successor is
// reported while it ends.
func TestEndingHostDoesNotReportThatItWaits(t *testing.T) {
	var said strings.Builder
	r := &runner{
		c:   &Command{},
		cfg: leader.ElectionConfig{InstanceID: "a"}, err: &said, result: make(chan int, 1), known: make(map[string]leader.LeaderInfo),
	}
	r.wait(leader.LeaderInfo{Group: "g", ID: "b", Term: 7})
	if got, want := said.String(), "leader: waiting: \"b\" leads g in term 7\n"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	said.Reset()
	r.finish(0)
	r.wait(leader.LeaderInfo{Group: "g", ID: "b", Term: 8})
	if said.Len() > 0 {
		t.Errorf("it has ended, and prints %q", said.String())
	}
}

// The leftovers of a killed guard are ended, and not the program by which a
// store's client gets its credentials: the term's release needs those.
func TestProcessOfALibraryDoesNotBelongToTheProgram(t *testing.T) {
	r := &runner{shells: make(map[int]struct{})}
	for library, attr := range map[bool]*syscall.SysProcAttr{true: nil, false: {Setsid: true}} {
		cmd := exec.CommandContext(t.Context(), "cat")
		cmd.SysProcAttr = attr
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := r.aside(cmd.Process.Pid); got != library {
			t.Errorf("started by a library: %t, left alone: %t", library, got)
		}
		_ = in.Close()
		_ = cmd.Wait() // it ends with its input
	}
}
