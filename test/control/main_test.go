// Package control_test asks leaders on real NATS servers to leave, as operators
// do.
package control_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
