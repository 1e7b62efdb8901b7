package devtest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports that a server keeps while it is stopped are below the ports that
// systems give to callers that ask for any: from 32768 on Linux, from 49152
// elsewhere.
const (
	lowest  = 10_000
	highest = 32_000
	block   = 50 // how many a process claims at once
)

// claimed are this process's ports that no server has had yet. A process claims
// a block of ports by listening on the first of them for as long as it lives,
// since the tests of other packages run at the same time.
var claimed struct { //nolint:gochecknoglobals // the ports are the process's
	sync.Mutex
	ports  []int
	guards []net.Listener
}

// free returns ports of the loopback interface on which nobody listens.
func free(tb testing.TB, n int) (ports []int) {
	tb.Helper()
	claimed.Lock()
	defer claimed.Unlock()
	for len(ports) < n {
		if len(claimed.ports) == 0 && !claim() {
			tb.Fatal("there are no free ports")
		}
		port := claimed.ports[0]
		claimed.ports = claimed.ports[1:]
		if l, err := listen(port); err == nil {
			_ = l.Close()
			ports = append(ports, port)
		}
	}
	return ports
}

// claim claims a block, and reports whether one was left.
func claim() bool {
	for range 1000 {
		first := lowest + block*rand.IntN((highest-lowest)/block)
		guard, err := listen(first)
		if err != nil {
			continue
		}
		claimed.guards = append(claimed.guards, guard) // so that none is collected, and closed
		for port := first + 1; port < first+block; port++ {
			claimed.ports = append(claimed.ports, port)
		}
		return true
	}
	return false
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // it does not wait
}
