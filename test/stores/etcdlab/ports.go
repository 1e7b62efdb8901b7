package etcdlab

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Servers come back to their ports, so these are below those that systems give to whoever asks for any: from 32768 on
// Linux, and from 49152 elsewhere.
const (
	lowestPort  = 10_000
	highestPort = 32_000
)

// given are the ports that tests of this process have got. None is given again, since the server of a test that runs in
// parallel may be stopped just now.
var given struct {
	sync.Mutex
	ports map[string]bool
}

// freePorts returns addresses of the loopback interface on which nobody listens.
func freePorts(tb testing.TB, n int) (addrs []string) {
	tb.Helper()
	given.Lock()
	defer given.Unlock()
	if given.ports == nil {
		given.ports = make(map[string]bool)
	}
	for range 1000 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(lowestPort+rand.IntN(highestPort-lowestPort)))
		if given.ports[addr] {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		_ = l.Close()
		given.ports[addr] = true
		if addrs = append(addrs, addr); len(addrs) == n {
			return addrs
		}
	}
	tb.Fatal("etcdlab: there are no free ports")
	return nil
}
