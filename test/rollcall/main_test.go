// Package rollcall_test asks candidates on real NATS servers who they are.
package rollcall_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
