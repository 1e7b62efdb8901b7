// Package ports finds ports for servers that must know theirs beforehand.
package ports

import (
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Servers that come back to their port, and those that must know it beforehand, have one below those that systems give to
// whoever asks for any: from 32768 on Linux, and from 49152 elsewhere. Of the latter, another test's server could get it
// while nobody listens.
const (
	lowest  = 10_000
	highest = 32_000
)

// given are the ports that tests of this process have got. Nobody gets one again:
// the server of a test that runs in parallel may be stopped just now.
var given struct {
	sync.Mutex
	ports []int
}

// Free returns ports of the loopback interface on which nobody listens.
func Free(tb testing.TB, n int) []int {
	tb.Helper()
	given.Lock()
	defer given.Unlock()
	var free []int
	for range 1000 {
		p := lowest + rand.IntN(highest-lowest)
		if slices.Contains(given.ports, p) {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			continue
		}
		_ = l.Close()
		given.ports = append(given.ports, p)
		free = append(free, p)
		if len(free) == n {
			return free
		}
	}
	tb.Fatal("there are no free ports")
	return nil
}
