// Package roles_test runs managers of many roles on real NATS servers.
package roles_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
