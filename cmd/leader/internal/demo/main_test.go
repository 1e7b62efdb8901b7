package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devnats"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"

	"go.uber.org/goleak"
)

// TestMain makes the test's own binary serve as a worker, too: one that claims
// to lead whatever the others do, one that cannot begin, one that only keeps a
// processor busy, or an honest one.
//
// Only the tests that freeze real processes are parallel: the others wait for
// little, and most of them for nothing.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "lie":
			lie()
			return
		case "work":
			if err := (WorkerCommand{}).Run(context.Background(), app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, kit()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		case "spin":
			_, _ = os.Stdout.WriteString("!") // it is killed soon
			for {
				runtime.Gosched()
			}
		case "fail":
			fmt.Fprintln(os.Stderr, "no such luck")
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// kit is what main would hand in, without the contexts.
func kit() app.Kit {
	nats := natsstore.Driver()
	return app.Kit{
		Drivers:  []store.Driver{nats, quorumstore.Driver(nats)},
		Settings: func(f natsconn.Flags) (natsconn.Settings, error) { return natsconn.Settings{URL: f.Server}, nil },
		Serve:    func(port int) (app.Server, error) { return devnats.Start(port) },
	}
}

// lie reports that it leads, in a term that nobody granted, until it is ordered
// to stop.
func lie() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var s spec
	if in.Decode(&s) != nil {
		return
	}
	stop := make(chan struct{})
	go func() {
		var o order
		for in.Decode(&o) == nil && o != orderStop {
		}
		close(stop)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now := monoNow()
		err := out.Encode(report{Kind: reportSamples, At: now, Samples: &samples{
			Asked: 1, Run: 1, Term: uint64(os.Getpid()), Led: [][2]int64{{now, monoNow()}},
		}})
		if err != nil {
			return
		}
	}
}
