//go:build unix

package proxy_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/overlap"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const (
	bucket = "leaders"
	group  = "service"
	ttl    = 600 * time.Millisecond
	// beInstance, as its first argument, has this program be an instance.
	beInstance = "instance"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == beInstance {
		if err := instance(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, os.Args[2], err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// An outlet takes what an instance reads, and notes it.
type outlet struct {
	mu   sync.Mutex
	file *os.File
	made uint64 // connections
}

// frameSize is the size of a frame in the file: three numbers.
const frameSize = 24

func (o *outlet) note(f frame) error {
	b := make([]byte, 0, frameSize)
	for _, n := range []uint64{f.conn, uint64(f.read), uint64(f.sent)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.file.Write(b) // at once: the process may be killed
	return err
}

// serve notes each frame of a connection, and sends it back.
func (o *outlet) serve(c net.Conn) {
	defer c.Close() //nolint:errcheck // a fixture
	o.mu.Lock()
	o.made++
	conn := o.made
	o.mu.Unlock()
	stamp := make([]byte, 8)
	for {
		if _, err := io.ReadFull(c, stamp); err != nil {
			return // cut, or at its end
		}
		f := frame{conn, overlap.Now(), int64(binary.BigEndian.Uint64(stamp))}
		if err := o.note(f); err != nil {
			panic(err) // what follows would be unjudged
		}
		if _, err := c.Write(stamp); err != nil {
			return
		}
	}
}

// instance is the process of an instance, which lasts as long as its standard
// input. SIGUSR1 has it resign.
func instance(id, url, file string) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		return err
	}
	defer nc.Close()
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	o := &outlet{}
	if o.file, err = os.Create(file); err != nil {
		return err
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go o.serve(c)
		}
	}()
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: bucket, BucketAutoCreate: true, Group: group, InstanceID: id, TTL: ttl, HeartbeatInterval: ttl / 5,
		Address: ln.Addr().String(), AcquireGrace: leader.GraceOff, // the bucket is the test's own
	})
	if err != nil {
		return err
	}
	if err := e.Start(context.Background()); err != nil {
		return err
	}
	resign := make(chan os.Signal, 1)
	signal.Notify(resign, syscall.SIGUSR1)
	go func() {
		for range resign {
			_ = e.Resign(context.Background()) // it may lead no more
		}
	}()
	err = harness.Serve(os.Stdin, os.Stdout, "ready")
	return errors.Join(err, e.Stop())
}

// A contender is an instance, in one process after the other, behind its own proxy
// to the server.
type contender struct {
	t     *testing.T
	id    string
	way   *natslab.Relay
	dir   string
	runs  int
	child *harness.Child
}

// start starts the process, and waits until it is a candidate.
func (s *contender) start() {
	s.t.Helper()
	s.runs++
	file := filepath.Join(s.dir, fmt.Sprintf("%s-%d", s.id, s.runs))
	var err error
	// The contender ends it after the test's context.
	if s.child, err = harness.StartChild(context.WithoutCancel(s.t.Context()), beInstance, s.id, s.way.URL(), file); err != nil {
		s.t.Fatal(err)
	}
	var ready string
	if err := s.child.Hear(&ready); err != nil {
		s.t.Fatalf("instance %s: %v", s.id, err)
	}
}

func (s *contender) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.child.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// end ends the process at once.
func (s *contender) end() { s.child.Kill() }

// read returns what the processes of all instances noted until now.
func read(t *testing.T, dir string) []record {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*-*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []record
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := record{name: filepath.Base(file)}
		for ; len(b) >= frameSize; b = b[frameSize:] {
			n := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
			r.frames = append(r.frames, frame{n(0), int64(n(1)), int64(n(2))})
		}
		all = append(all, r)
	}
	return all
}
