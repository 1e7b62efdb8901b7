// Package security_test holds docs/operations.md to what a real server does: which rights each kind of user
// needs, what the lack of each of them breaks, which attacks fail, and how to connect safely.
package security_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
