// Package elections_test runs whole elections on real NATS servers: what needs
// the server, and is not shown in virtual time by the tests of the root and of
// the packages that it is made of.
package elections_test

import (
	"os"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) {
	if natslab.Serving() {
		os.Exit(0)
	}
	leaks.Main(m)
}
