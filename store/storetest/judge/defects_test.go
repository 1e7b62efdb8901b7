package judge_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
)

// A swap is how a client makes a write.
type swap func(context.Context) (*Answer, error)

// A defect is a way in which a served store can be wrong, and the case that
// must catch it. The zero defect is a sound store.
type defect struct {
	catches judge.Case

	swap          func(c *client, w store.Write, sound swap) swap
	kill          func(*memstore.Store)
	asksTheServer bool         // whether a key is valid
	servesOn      bool         // after Close
	forgets       bool         // the harness reports that the host does
	report        store.Report // Check's
}

// forget has a host keep nothing, and give its revisions again.
func forget(st *memstore.Store) { st.Restore(nil, 0) }

// empty has a host keep nothing but its count of revisions.
func empty(st *memstore.Store) { st.Restore(nil, 1<<40) }

var defects = map[string]defect{
	"compares and then writes": {catches: judge.Histories, swap: func(c *client, w store.Write, _ swap) swap {
		return func(ctx context.Context) (*Answer, error) {
			a, err := c.call(ctx, store.ErrTransient, "Get", w.Key)
			if err != nil || a.Entry.Revision != w.Expected {
				return &Answer{Conflict: true}, err
			}
			<-time.After(time.Millisecond)
			a, err = c.call(ctx, store.ErrTransient, "Get", w.Key)
			if err != nil {
				return nil, err
			}
			latest := w
			latest.Expected = a.Entry.Revision
			return c.call(ctx, store.ErrUnknown, "Swap", latest)
		}
	}},
	"repeats a write whose answer was lost": {catches: judge.LostAnswers, swap: func(_ *client, _ store.Write, sound swap) swap {
		return func(ctx context.Context) (*Answer, error) {
			a, err := sound(ctx)
			if errors.Is(err, store.ErrUnknown) && ctx.Err() == nil {
				return sound(ctx)
			}
			return a, err
		}
	}},
	"takes a write that nobody answers for one without effect": {catches: judge.Frozen, swap: func(_ *client, _ store.Write, sound swap) swap {
		return func(ctx context.Context) (*Answer, error) {
			a, err := sound(ctx)
			if errors.Is(err, store.ErrUnknown) && ctx.Err() != nil {
				err = errors.Join(store.ErrTransient, ctx.Err())
			}
			return a, err
		}
	}},
	"sends what it kept when it is connected again": {catches: judge.Unsent, swap: func() func(*client, store.Write, swap) swap {
		var mu sync.Mutex
		kept := map[*client][]store.Write{}
		return func(c *client, w store.Write, sound swap) swap {
			return func(ctx context.Context) (*Answer, error) {
				mu.Lock()
				defer mu.Unlock()
				for _, late := range kept[c] {
					if _, err := c.call(ctx, store.ErrTransient, "Swap", late); err == nil {
						kept[c] = nil
					}
				}
				a, err := sound(ctx)
				if errors.Is(err, store.ErrTransient) {
					kept[c] = append(kept[c], w)
				}
				return a, err
			}
		}
	}()},
	"leaves the check of a key to the server": {catches: judge.Invalid, asksTheServer: true},
	"serves on when it is closed":             {catches: judge.Closed, servesOn: true},
	"loses what it acknowledged":              {catches: judge.Kept, kill: forget},
	"loses it while others write":             {catches: judge.Faults, kill: forget},
	"gives terms again":                       {catches: judge.Outlived, kill: forget},
	"does not report that it forgets":         {catches: judge.Forgotten, kill: empty, forgets: true},
}

// child names the defect in the process that has it: Run can fail only a real
// *testing.T.
const child = "JUDGE_DEFECT"

func TestAServedStorePasses(t *testing.T) {
	d, opts := defect{}, options
	if name, ok := os.LookupEnv(child); ok {
		d = defects[name]
		opts.Cases, opts.Patience = []judge.Case{d.catches}, 2*time.Second
	}
	judge.Run(t, subject(d), opts)
}

func TestAServedStoreThatForgetsPasses(t *testing.T) {
	t.Parallel()
	opts := options
	opts.Cases, opts.CoolsDown = []judge.Case{judge.Forgotten}, true
	judge.Run(t, subject(defect{kill: empty, forgets: true, report: store.Report{Forgetful: true}}), opts)
}

func TestEachDefectIsCaughtByItsCase(t *testing.T) {
	t.Parallel()
	for name, d := range defects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), exe, "-test.v", "-test.timeout=5m", "-test.run=^TestAServedStorePasses$")
			cmd.Env = append(os.Environ(), child+"="+name, "GORACE=atexit_sleep_ms=0")
			out, err := cmd.CombinedOutput()
			if _, failed := errors.AsType[*exec.ExitError](err); !failed {
				t.Fatalf("the store with the defect passed (%v):\n%s", err, out)
			}
			if !strings.Contains(string(out), "--- FAIL: TestAServedStorePasses/"+string(d.catches)+" ") || strings.Contains(string(out), "panic: ") {
				t.Fatalf("the child ended without a verdict on %s:\n%s", d.catches, out)
			}
		})
	}
}
