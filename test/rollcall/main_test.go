// Package rollcall_test asks candidates on real NATS servers who they are.
package rollcall_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
