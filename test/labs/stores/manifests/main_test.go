package manifests

import (
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

func TestMain(m *testing.M) { trial.Main(m) }
