package histories_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

var (
	rounds = flag.Int("histories", 1, "how many histories of each store to record and judge")
	seed   = flag.Uint64("seed", 0, "seed of the first history; 0: any")
)

func TestMain(m *testing.M) {
	if natslab.Serving() {
		os.Exit(0)
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}
