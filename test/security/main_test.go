// Package security_test holds docs/operate/permissions.md to what a real server does:
// which rights each kind of user needs, what the lack of each of them breaks,
// which attacks fail, and how to connect safely.
package security_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
