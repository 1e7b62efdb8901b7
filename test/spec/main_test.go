// Package spec_test shows on real NATS servers what the project's
// specification, and the libraries that were before it, promise to users:
// docs/spec-coverage.md lists it.
package spec_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader/test/internal/leaks"
)

func TestMain(m *testing.M) {
	leaks.Crowd()
	goleak.VerifyTestMain(m)
}
