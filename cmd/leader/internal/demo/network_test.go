package demo

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// patience bounds what would otherwise hang.
const patience = 30 * time.Second

// cable returns both ends of a connection whose near end goes through a
// network.
func cable(t *testing.T) (n *network, near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	n = newNetwork(patience)
	if near, err = n.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	_ = far.SetDeadline(time.Now().Add(patience))
	return n, near, far
}

func TestNothingPassesACutNetworkAndAllOfItComesLater(t *testing.T) {
	n, near, far := cable(t)
	n.cut()
	if _, err := near.Write([]byte("late")); err != nil {
		t.Fatalf("a cut network showed in an error: %v", err)
	}
	if _, err := far.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		b := make([]byte, 6)
		_, _ = io.ReadFull(near, b)
		read <- string(b)
	}()
	_ = far.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if k, _ := far.Read(make([]byte, 1)); k != 0 {
		t.Error("something passed to the far end")
	}
	select {
	case s := <-read:
		t.Errorf("%q passed to the near end", s)
	default:
	}
	n.heal()
	_ = far.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, 4)
	if _, err := io.ReadFull(far, b); err != nil || string(b) != "late" {
		t.Errorf("after healing: %q, %v", b, err)
	}
	if s := <-read; s != "answer" {
		t.Errorf("after healing: %q", s)
	}
}

func TestClosingEndsAReadOnACutNetwork(t *testing.T) {
	n, near, far := cable(t)
	n.cut()
	done := make(chan error)
	go func() {
		_, err := near.Read(make([]byte, 1))
		done <- err
	}()
	_, _ = far.Write([]byte("x"))
	_ = near.Close()
	if err := <-done; err == nil || !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

func TestDialingACutNetworkTimesOut(t *testing.T) {
	n := newNetwork(10 * time.Millisecond)
	n.cut()
	if _, err := n.Dial("tcp", "127.0.0.1:1"); err == nil {
		t.Error("connected")
	}
}

func TestACutNetworkHoldsCallsAndNews(t *testing.T) {
	m := memstore.New()
	n := newNetwork(time.Second)
	r := &remote{m, n}
	heard := make(chan string, 10)
	stop, err := r.Watch(t.Context(), []string{"g"}, func(e store.Entry) { heard <- string(e.Value) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if v := <-heard; v != "" {
		t.Fatalf("%q", v)
	}
	n.cut()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.CompareAndSwap(ctx, store.Write{Key: "g"}); store.Classify(err) != store.Unknown {
		t.Errorf("a write while the network is cut: %v", err)
	}
	if _, err := r.Get(ctx, "g"); store.Classify(err) != store.Transient {
		t.Errorf("a read while the network is cut: %v", err)
	}
	if _, err := m.CompareAndSwap(t.Context(), store.Write{Key: "g", Value: []byte("another's")}); err != nil {
		t.Fatal(err)
	}
	select {
	case v := <-heard:
		t.Errorf("%q was heard of while the network is cut", v)
	case <-time.After(20 * time.Millisecond): // too short a wait finds no fault, and none that is not there
	}
	n.heal()
	if v := <-heard; v != "another's" {
		t.Errorf("%q", v)
	}
}
