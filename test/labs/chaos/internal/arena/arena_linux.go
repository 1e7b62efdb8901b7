package arena

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Addresses and names that the lab passes to the candidates.
const (
	Bucket   = "leaders"
	Group    = "fire"
	Password = "fire"
)

// The users. Each candidate of a round has its own user with the candidate's
// name, so that one candidate may lack a right which others have.
const (
	Guest     = "guest" // who joins later
	Everybody = ""      // all users of candidates
)

const (
	stream   = "KV_" + Bucket
	stored   = "$KV." + Bucket + "."
	probeKey = stored + "_probe"
	republic = "leader." + Bucket + "."
	system   = "system" // the user who may ask the servers how they are, and their password
)

// An Arena is the servers of a round.
type Arena struct {
	*Bench
	Servers *natslab.Processes

	users  []string // of the candidates
	shape  schedule.Shape
	expiry schedule.Expiry
	disk   *Disk // if there is one
	noDisk error // why there is none
	admin  *nats.Conn
	js     jetstream.JetStream

	mu      sync.Mutex // guards what follows
	stored  []history.Stored
	highest uint64 // revision that was seen
	expired int
}

// New starts the servers of a shape, by a command, for some candidates and for
// guests, and makes the bucket, whose records expire according to e.
func New(b *Bench, run natslab.Command, s schedule.Shape, e schedule.Expiry, candidates ...string) *Arena {
	a := &Arena{Bench: b, users: append([]string{Guest}, candidates...), shape: s, expiry: e}
	if schedule.OnDisk(s) {
		b.furnish = a.mountDisk
	}
	a.Servers = natslab.StartPartitionable(b, run, s.Nodes, credentials(a.candidates(Everybody)...))
	b.furnish = nil
	a.admin = a.Servers.Connect(b, nats.ReconnectBufSize(-1), nats.Timeout(2*time.Second))
	a.js = natslab.JetStream(b, a.admin)
	_, err := a.admin.Subscribe(republic+Group, a.witness)
	b.Check(err)
	natslab.Eventually(b, "bucket", a.MakeBucket)
	return a
}

// mountDisk puts a disk where the server in dir will keep its files.
func (a *Arena) mountDisk(dir string) {
	d, err := newDisk(filepath.Join(dir, "backing"), filepath.Join(dir, "js"))
	if err != nil {
		a.noDisk = err
		return
	}
	a.Cleanup(d.close)
	a.disk = d
}

// Disk returns the disk under the one server of a shape that is on disk, or why
// there is none.
func (a *Arena) Disk() (*Disk, error) { return a.disk, a.noDisk }

// witness notes what the store stored.
func (a *Arena) witness(m *nats.Msg) {
	revision, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tellsOfExpiry(m.Header, revision) {
		a.expired++
	}
	a.highest = max(a.highest, revision)
	a.note(revision, m.Data)
}

// note notes a record. a.mu is held.
func (a *Arena) note(revision uint64, value []byte) {
	var r struct {
		ID    string `json:"id"`
		Token string `json:"token"`
		Term  uint64 `json:"term"`
	}
	if json.Unmarshal(value, &r) != nil {
		return // a marker, or garbage of the lab's own
	}
	token := leader.Term{Token: r.Token}.Correlation()
	if n := len(a.stored); r.ID != "" && r.Term != 0 && n > 0 && a.stored[n-1].Term == r.Term && a.stored[n-1].Token == token {
		return // a renewal like the one before
	}
	a.stored = append(a.stored, history.Stored{Revision: revision, ID: r.ID, Token: token, Term: r.Term})
}

// tellsOfExpiry reports whether a message of a revision is the marker of a
// record that has expired, or, where there are none, the first to follow one. A
// bucket that was made anew has another first one: at a revision that was seen
// before, or at one that tells the time, in microseconds, if the candidates
// made it.
func (a *Arena) tellsOfExpiry(h nats.Header, revision uint64) bool {
	if a.expiry.Markers {
		return h.Get("Nats-Marker-Reason") == "MaxAge"
	}
	return a.expiry.MaxAge > 0 && h.Get("Nats-Last-Sequence") == "0" && a.highest > 0 && revision > a.highest && revision < a.highest+1e6
}

// Expired returns how many records the bucket dropped by their age, as far as
// the lab saw it.
func (a *Arena) Expired() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.expired
}

// Stored returns what the store stored, as far as the lab saw it.
func (a *Arena) Stored() []history.Stored {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stored
}

// Heal makes the servers as they were.
func (a *Arena) Heal() {
	for _, p := range a.Servers.Nodes {
		p.Run()
	}
}

// Proxies are new ones, one to each server.
func (a *Arena) Proxies() (ps []*natslab.Relay) {
	for _, node := range a.Servers.Nodes {
		ps = append(ps, natslab.NewRelay(a, node.Addr()))
	}
	return ps
}

// URLs returns the addresses of proxies.
func URLs(ps []*natslab.Relay) (all []string) {
	for _, p := range ps {
		all = append(all, p.URL())
	}
	return all
}

// Kill ends all servers without a warning.
func (a *Arena) Kill() {
	for _, p := range a.Servers.Nodes {
		p.Kill()
	}
}
