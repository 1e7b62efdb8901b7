package trial

import (
	"math/rand/v2"
	"time"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Part has nothing pass between a primary and what may take its place, for a
// while, in which clients write on: a failover that follows loses what was
// acknowledged without the other.
func Part(r *rand.Rand, link *natslab.Relay) {
	link.Hold(natslab.ToServer, natslab.ToClient)
	<-time.After(200 * time.Millisecond)
	<-time.After(time.Duration(r.IntN(300)) * time.Millisecond)
}

// Rejoin points a link that was parted at another primary. Held data is lost.
func Rejoin(link *natslab.Relay, addr string) {
	link.Redirect(addr)
	link.Resume()
}
