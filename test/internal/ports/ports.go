// Package ports finds ports for servers that must know theirs beforehand.
package ports

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// A server that comes back to its port, or must know it beforehand, has a port
// below the range from which systems assign ports: from 32768 on Linux, and
// from 49152 elsewhere. A port of that range could go to another test's server
// while its owner is down.
const (
	lowest  = 10_000
	highest = 32_000
)

// block is how many ports a process claims at once, with the one by which it
// claims them.
const block = 50

// claimed are the unused ports of this process. A port is not given out twice:
// the server of a test that runs in parallel may be stopped just now.
//
// The tests of several packages run at the same time, each in its own process,
// and a port is free while its server starts or restarts. So a process claims a
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
