package natslab

import (
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"testing"
)

// Servers that come back to their port, and those that must know it beforehand, have one below those that systems give to
// whoever asks for any: from 32768 on Linux, and from 49152 elsewhere. Of the latter, another test's server could get it
// while nobody listens.
const (
	lowestPort  = 10_000
	highestPort = 32_000
)

// freePorts returns ports of the loopback interface on which nobody listens.
func freePorts(tb testing.TB, n int) []int {
	tb.Helper()
	var ports []int
	for range 1000 {
		p := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			continue
		}
		_ = l.Close()
		if !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
		if len(ports) == n {
			return ports
		}
	}
	tb.Fatal("natslab: there are no free ports")
	return nil
}
