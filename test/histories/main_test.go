package histories_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) {
	if natslab.Serving() {
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
