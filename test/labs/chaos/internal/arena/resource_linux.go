package arena

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/httpfence"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Resource is a guarded resource, as an oracle that knows nothing of the
// guard: it notes what was attempted before the guard and what took effect
// behind it.
type Resource struct {
	mu  sync.Mutex
	saw history.Resource
	max uint64 // the newest term that was accepted
}

func (r *Resource) attempted(term uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saw.Total++
	if term < r.max {
		r.saw.Stale++
	}
}

func (r *Resource) accepted(w history.Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.max = max(r.max, w.Term)
	if n := len(r.saw.Accepted); n == 0 || r.saw.Accepted[n-1] != w {
		r.saw.Accepted = append(r.saw.Accepted, w)
	}
}

// Report returns what was seen so far.
func (r *Resource) Report() history.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.saw
}

// ServeLedger serves the resource that speaks HTTP, behind a fence.Gate.
func ServeLedger(b *Bench) (url string, r *Resource) {
	r = &Resource{saw: history.Resource{Name: "the HTTP ledger"}}
	guarded := httpfence.Require(candidate.GuardedGroup, new(fence.Gate).Enter)(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		term, ok := fence.FromContext(req.Context())
		if !ok {
			http.Error(w, "the gate has let in no term", http.StatusInternalServerError)
			return
		}
		r.accepted(history.Write{Term: term.Number, From: req.Header.Get(candidate.HeaderProcess)})
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	b.Check(err)
	s := &http.Server{ReadHeaderTimeout: natslab.Patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, term, err := httpfence.Read(req.Header); err == nil {
			r.attempted(term.Number)
		}
		guarded.ServeHTTP(w, req)
	})}
	go func() { _ = s.Serve(l) }() // ends with Close
	b.Cleanup(func() { _ = s.Close() })
	return "http://" + l.Addr().String(), r
}

// ServeGuarded runs a server with a guarded bucket, and watches what it stores.
func ServeGuarded(b *Bench) (url string, r *Resource) {
	r = &Resource{saw: history.Resource{Name: "the guarded bucket"}}
	s := natslab.Start(b)
	nc := s.Connect(b)
	const stored = "stored."
	_, err := nc.Subscribe(stored+">", func(m *nats.Msg) {
		// $KV.<bucket>.w.<process>.<term>
		parts := strings.Split(strings.TrimPrefix(m.Subject, stored), ".")
		if len(parts) != 5 || parts[2] != "w" {
			return // the guard
		}
		if term, err := strconv.ParseUint(parts[4], 10, 64); err == nil {
			r.attempted(term)
			r.accepted(history.Write{Term: term, From: parts[3]})
		}
	})
	b.Check(err)
	_, err = nc.Subscribe(candidate.RefusedSubject, func(*nats.Msg) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.saw.Total++
		r.saw.Stale++
	})
	b.Check(err)
	b.Check(nc.Flush())
	js := natslab.JetStream(b, nc)
	ctx, cancel := context.WithTimeout(context.Background(), natslab.Patience)
	defer cancel()
	_, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: candidate.GuardedBucket, Storage: jetstream.MemoryStorage,
		RePublish: &jetstream.RePublish{Source: ">", Destination: stored + ">"},
	})
	b.Check(err)
	return s.URL(), r
}
