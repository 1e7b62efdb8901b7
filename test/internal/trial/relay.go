package trial

import (
	"testing"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Sink is a relay whose connections can be forgotten: see
// [natslab.Proxy.Forget].
type Sink = natslab.Proxy

// NewSink starts a sink in front of host:port, which ends with the test.
func NewSink(tb testing.TB, target string) *Sink {
	tb.Helper()
	return natslab.NewProxy(tb, target)
}

// NewRelay starts a relay to host:port, which ends with the test and passes
// answers on by a function of the test.
func NewRelay(tb testing.TB, target string, answers natslab.Answers) *natslab.Proxy {
	tb.Helper()
	return natslab.NewProxyOf(tb, target, answers)
}
