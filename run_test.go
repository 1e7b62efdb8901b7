package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestRunReturnsTheErrorOfTheWorkAndReleases(t *testing.T) {
	for _, want := range []error{nil, errors.New("of the work")} {
		synctest.Test(t, func(t *testing.T) {
			st, cfg := memstore.New(), config("a")
			cfg.DeleteOnStop = false
			err := leader.RunWithStore(t.Context(), st, cfg, func(ctx context.Context, term leader.Term) error {
				if in, ok := leader.TermFromContext(ctx); !ok || in != term || term.IsZero() {
					t.Errorf("%v, %v in the context", term, in)
				}
				time.Sleep(time.Minute)
				return want
			})
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			if _, r := stored(t, st); r.ID != "" || r.Reason != "stopped" {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestRunLogsWorkThatReturnedWithinItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		cfg := config("a")
		cfg.Logger = slog.New(slog.NewJSONHandler(&book, nil))
		_ = leader.RunWithStore(t.Context(), memstore.New(), cfg, func(context.Context, leader.Term) error { return errors.New("no disk") })
		if text := book.text(); !strings.Contains(text, `"level":"INFO","msg":"note","group":"g","instance":"a","kind":"returned"`) || !strings.Contains(text, "returned while its term lasted: the election ends, with its error: no disk") {
			t.Error(text)
		}
	})
}

func TestRunEndsWithItsContextAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg, j := memstore.New(), config("a"), newJournal()
		cfg.DeleteOnStop = false
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := leader.RunWithStore(ctx, st, cfg, func(ctx context.Context, _ leader.Term) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			j.noteAt("work stopped")
			return ctx.Err()
		})
		if err != nil {
			t.Error(err)
		}
		j.demand(t, "1m1s work stopped")
		if _, r := stored(t, st); r.ID != "" {
			t.Errorf("%+v", r)
		}
	})
}

// A program that is asked to end while its servers are away ends at once.
func TestRunDoesNotWaitForAStoreWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		err := leader.RunWithStore(ctx, unanswering{memstore.New()}, config("a"), func(context.Context, leader.Term) error {
			t.Error("it leads")
			return nil
		})
		if took := time.Since(begun); err != nil || took != time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// unanswering answers no check in time.
type unanswering struct{ store.Store }

func (unanswering) Check(ctx context.Context, _ store.CheckRequest) (store.Report, error) {
	<-ctx.Done()
	return store.Report{}, ctx.Err()
}

func TestRunCampaignsAgainAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, terms := network(t, nil), []leader.Term(nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- leader.RunWithStore(ctx, f.Client("a"), config("a"), func(ctx context.Context, term leader.Term) error {
				terms = append(terms, term)
				<-ctx.Done()
				return errors.New("lost")
			})
		}()
		synctest.Wait()
		for range 3 {
			f.Delete("g")
			time.Sleep(3 * wait)
		}
		cancel()
		if err := <-done; err != nil || len(terms) != 4 || !terms[3].Supersedes(terms[2]) {
			t.Fatalf("%v after %v", err, terms)
		}
	})
}

// Work may end the context of Run, together with Run: its error is not lost. If
// the context of the term was cancelled before the work returned, as on a slow
// machine, the work was asked to end, and its error is ignored.
func TestRunReturnsTheErrorOfTheWorkBesideTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom, heard := errors.New("boom"), 0
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			err := leader.RunWithStore(ctx, memstore.New(), config("a"), func(context.Context, leader.Term) error {
				cancel()
				return boom
			})
			if errors.Is(err, boom) {
				heard++
			}
		}
		if heard == 0 {
			t.Error("the error of the work was lost each time")
		}
	})
}

func TestRunSurvivesAPanicOfTheWork(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				err := leader.RunWithStore(t.Context(), memstore.New(), config("a"), func(context.Context, leader.Term) error {
					n++
					if n < 3 {
						fail()
					}
					return nil
				})
				if err != nil || n != 3 {
					t.Errorf("%v after %d terms", err, n)
				}
			})
		})
	}
}

func TestRunReportsWorkThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("a")
		cfg.DemoteTimeout = 2 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		err := leader.RunWithStore(ctx, st, cfg, func(context.Context, leader.Term) error {
			time.Sleep(time.Hour)
			return nil
		})
		if d := time.Since(begun); !errors.Is(err, leader.ErrDemoteTimeout) || d != time.Minute+2*time.Second {
			t.Errorf("%v after %v", err, d)
		}
		time.Sleep(time.Hour)
	})
}

func TestRunReturnsTheErrorsOfNewElectionAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead := func(context.Context, leader.Term) error { t.Error("led"); return nil }
		if err := leader.RunWithStore(t.Context(), memstore.New(), leader.ElectionConfig{}, lead); !errors.Is(err, leader.ErrInvalidConfig) {
			t.Error(err)
		}
		st := &checked{Store: memstore.New(), err: store.ErrPermanent}
		if err := leader.RunWithStore(t.Context(), st, config("a"), lead); !errors.Is(err, store.ErrPermanent) {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f := network(t, func(faultstore.Call) faultstore.Fate { return faultstore.Fate{Lose: true} })
		if err := leader.RunWithStore(ctx, f.Client("a"), config("a"), lead); err != nil {
			t.Error(err)
		}
	})
}

// Otherwise each term would begin with a panic, for ever.
func TestRunRequiresAFunction(t *testing.T) {
	cfg := config("a")
	cfg.Bucket = "b"
	for name, err := range map[string]error{
		"Run":          leader.Run(t.Context(), new(nats.Conn), cfg, nil),
		"RunWithStore": leader.RunWithStore(t.Context(), memstore.New(), cfg, nil),
	} {
		if !errors.Is(err, leader.ErrInvalidConfig) || !slices.Equal(fields(err), []string{"lead"}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunReturnsErrConnectionClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		time.AfterFunc(time.Minute, func() { f.Report(store.Closed, "a") })
		err := leader.RunWithStore(t.Context(), f.Client("a"), config("a"), func(ctx context.Context, _ leader.Term) error {
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, leader.ErrConnectionClosed) {
			t.Error(err)
		}
	})
}
