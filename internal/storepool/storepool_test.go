package storepool

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store/natsstore"
)

func borrow(t *testing.T, p *Pool, nc *nats.Conn, bucket string, opts natsstore.Options) (*natsstore.Store, func()) {
	t.Helper()
	s, release, err := p.Borrow(nc, bucket, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return s, release
}

func TestOneStoreForAllOnOneConnection(t *testing.T) {
	var p Pool
	nc := new(nats.Conn) // which the store does not use before it is asked for anything
	first, _ := borrow(t, &p, nc, "b", natsstore.Options{})
	if again, _ := borrow(t, &p, nc, "b", natsstore.Options{Logger: slog.Default()}); again != first {
		t.Error("a second store for the same bucket on the same connection")
	}
	made := natsstore.Options{Create: &natsstore.BucketConfig{}}
	maker, _ := borrow(t, &p, nc, "b", made)
	if again, _ := borrow(t, &p, nc, "b", natsstore.Options{Create: &natsstore.BucketConfig{}}); again != maker {
		t.Error("a second store for those who make the same bucket")
	}
	for what, other := range map[string]*natsstore.Store{
		"who may make the bucket":    maker,
		"another way of making it":   storeOf(borrow(t, &p, nc, "b", natsstore.Options{Create: &natsstore.BucketConfig{Replicas: 3}})),
		"another bucket":             storeOf(borrow(t, &p, nc, "c", natsstore.Options{})),
		"another connection":         storeOf(borrow(t, &p, new(nats.Conn), "b", natsstore.Options{})),
		"the bucket of a domain":     storeOf(borrow(t, &p, nc, "b", natsstore.Options{Domain: "hub"})),
		"the bucket of another pool": storeOf(borrow(t, new(Pool), nc, "b", natsstore.Options{})),
	} {
		if other == first {
			t.Errorf("%s got the store of others", what)
		}
	}
}

func storeOf(s *natsstore.Store, _ func()) *natsstore.Store { return s }

func TestNothingIsHeldAfterTheLastRelease(t *testing.T) {
	var p Pool
	nc := new(nats.Conn)
	s, one := borrow(t, &p, nc, "b", natsstore.Options{})
	_, two := borrow(t, &p, nc, "b", natsstore.Options{})
	one()
	one()
	if again, release := borrow(t, &p, nc, "b", natsstore.Options{}); again != s {
		t.Error("the store was given up while it was lent")
	} else {
		release()
	}
	two()
	if n := len(p.loans); n != 0 {
		t.Errorf("%d stores are held for nobody", n)
	}
	if again, _ := borrow(t, &p, nc, "b", natsstore.Options{}); again == s {
		t.Error("a closed store was lent")
	}
}

func TestStoreThatCannotBeLentIsNotKept(t *testing.T) {
	var p Pool
	if _, _, err := p.Borrow(new(nats.Conn), "no bucket's name", natsstore.Options{}); err == nil || len(p.loans) != 0 {
		t.Errorf("%v, and %d stores are held", err, len(p.loans))
	}
}

func TestEachLoggerHearsOnce(t *testing.T) {
	text := func() (*slog.Logger, *bytes.Buffer) {
		b := new(bytes.Buffer)
		return slog.New(slog.NewTextHandler(b, nil)), b
	}
	shared, hears := text()
	other, left := text()
	a := newAudience()
	a.join(shared)
	a.join(shared)
	a.join(slog.New(slog.DiscardHandler))
	leave := a.join(other)
	leave()
	slog.New(a.handler()).With("k", "v").WithGroup("g").Error("text", "x", 1)
	if got := hears.String(); strings.Count(got, "text") != 1 || !strings.Contains(got, "k=v g.x=1") {
		t.Errorf("heard: %q", got)
	}
	if left.Len() != 0 {
		t.Errorf("heard after it left: %q", left)
	}
}

func TestPoolIsSafeForAll(t *testing.T) {
	var p Pool
	nc := new(nats.Conn)
	logger := slog.New(slog.DiscardHandler)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				s, release, err := p.Borrow(nc, "b", natsstore.Options{Logger: logger})
				if err != nil || s.Bucket() != "b" {
					t.Error(err)
				}
				release()
			}
		})
	}
	all.Wait()
	if len(p.loans) != 0 {
		t.Error("a store is held for nobody")
	}
}
