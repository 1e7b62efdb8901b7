// Package advisory_test publishes and keeps the advisories of elections on real NATS servers.
package advisory_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
