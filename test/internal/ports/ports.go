// Package ports finds ports for servers that must know theirs beforehand.
package ports

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Servers that come back to their port, and those that must know it beforehand,
// have one below those that systems give to whoever asks for any: from 32768 on
// Linux, and from 49152 elsewhere. Of the latter, another test's server could
// get it while nobody listens.
const (
	lowest  = 10_000
	highest = 32_000
)

// block is how many ports a process claims at once, with the one by which it
// claims them.
const block = 50

// claimed are the ports of this process that nobody has got yet. Nobody gets
// one again: the server of a test that runs in parallel may be stopped just
// now.
//
// The tests of several packages run at once, each in a process of its own, and
// nobody listens where a server starts or is restarted. So a process claims a
// block of ports, by listening on the first of them for as long as it lives.
var claimed struct {
	sync.Mutex
	ports  []int
	guards []net.Listener
}

// Free returns ports of the loopback interface on which nobody listens.
func Free(tb testing.TB, n int) []int {
	tb.Helper()
	claimed.Lock()
	defer claimed.Unlock()
	free := make([]int, 0, n)
	for len(free) < n {
		if len(claimed.ports) == 0 && !claim() {
			tb.Fatal("there are no free ports")
		}
		p := claimed.ports[0]
		claimed.ports = claimed.ports[1:]
		if l, err := listen(p); err == nil {
			_ = l.Close()
			free = append(free, p)
		}
	}
	return free
}

// claim claims a block that no other process has, and reports whether it found
// one.
func claim() bool {
	for range 1000 {
		first := lowest + block*rand.IntN((highest-lowest)/block)
		guard, err := listen(first)
		if err != nil {
			continue
		}
		claimed.guards = append(claimed.guards, guard) // lest it is collected, and closed
		for p := first + 1; p < first+block; p++ {
			claimed.ports = append(claimed.ports, p)
		}
		return true
	}
	return false
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
