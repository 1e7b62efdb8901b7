// Package advisory_test publishes and keeps the advisories of elections on real
// NATS servers.
package advisory_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
