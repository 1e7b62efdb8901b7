// Package control_test asks leaders on real NATS servers to leave, as operators do.
package control_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
