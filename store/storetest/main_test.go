package storetest_test

import (
	"flag"
	"testing"
)

// A defect is judged in a separate process, which mostly waits for a second:
// there may be more of them than processors.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // which the command line, parsed later, overrides
	m.Run()
}
