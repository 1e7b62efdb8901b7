package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/proxy"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// group is the one whose leader is the server, as the proxy sees it.
const group = "server"

// A note is a report of a part to its parent.
type note struct {
	// Address is where it listens, when it begins.
	Address string `json:"address,omitempty"`
	// Used is what it has used of processors so far, when it is asked or has
	// done a job.
	Used time.Duration `json:"used,omitempty"`
	// Took are the times by each way, of a client that was given a job.
	Took [ways]harness.Samples `json:"took,omitempty"`
}

// play is the process of a part. It answers each line of its standard input
// with a note, and ends with it. A command may replace the copy.
func play(ctx context.Context, part, listen, to, instead string, stdin io.Reader, stdout io.Writer) error {
	switch {
	case part == "client":
		return beClient(ctx, stdin, stdout)
	case part == "copy" && instead != "":
		return standIn(ctx, instead, listen, to, stdin, stdout)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	switch part {
	case "server":
		go accept(ln, serve)
	case "copy":
		go accept(ln, func(c net.Conn) { relay(ctx, c, to) })
	case "proxy":
		stop, err := lead(ctx, ln, to)
		if err != nil {
			return err
		}
		defer stop()
	default:
		return fmt.Errorf("there is no part %q", part)
	}
	return tell(ln.Addr().String(), harness.Processor, stdin, stdout)
}

// tell reports where a part listens, and then, for each line, what it has used.
func tell(address string, used func() time.Duration, stdin io.Reader, stdout io.Writer) error {
	out := json.NewEncoder(stdout)
	if err := out.Encode(note{Address: address}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		if err := out.Encode(note{Used: used()}); err != nil {
			return err
		}
	}
	return nil
}

func accept(ln net.Listener, serve func(net.Conn)) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return // at the end of the process
		}
		go func() {
			defer c.Close() //nolint:errcheck // the other end judges
			serve(c)
		}()
	}
}

// serve reads how many bytes make a round, and answers each with a byte.
func serve(c net.Conn) {
	head := make([]byte, 8)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	size := int64(binary.BigEndian.Uint64(head))
	buf := make([]byte, 256<<10)
	for {
		for left := size; left > 0; {
			n, err := c.Read(buf[:min(left, int64(len(buf)))])
			if err != nil {
				return
			}
			left -= int64(n)
		}
		if _, err := c.Write(head[:1]); err != nil {
			return
		}
	}
}

// relay is the plain copy. It hides the types by which io.Copy would have the
// kernel copy.
func relay(ctx context.Context, c net.Conn, to string) {
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // the other end judges
	copyTo := func(dst io.Writer, src io.Reader) {
		_, _ = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, 64<<10))
	}
	go copyTo(c, server)
	copyTo(server, c)
}

// lead has the server lead a group, and a proxy carry connections to it.
func lead(ctx context.Context, ln net.Listener, server string) (stop func(), err error) {
	st := memstore.New()
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: group, InstanceID: group, Address: server, TTL: time.Minute, HeartbeatInterval: 10 * time.Second,
		AcquireGrace: leader.GraceOff, // the store is its own
	})
	if err != nil {
		return nil, err
	}
	p, err := proxy.NewWithStore(st, group, proxy.Options{Drain: -1})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, ln) }()
	if err := e.Start(context.WithoutCancel(ctx)); err != nil {
		cancel()
		return nil, errors.Join(err, <-served)
	}
	return func() {
		cancel()
		_ = errors.Join(<-served, e.Stop()) // what was measured is known by then
	}, nil
}

// A job is what the client is to measure. Ways without an address are left out.
type job struct {
	Addresses [ways]string `json:"addresses"`
	Size      int64        `json:"size"`
	Rounds    int          `json:"rounds"`
}

func beClient(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	out := json.NewEncoder(stdout)
	if err := out.Encode(note{}); err != nil {
		return err
	}
	for in := json.NewDecoder(stdin); ; {
		var j job
		if err := in.Decode(&j); err != nil {
			return nil //nolint:nilerr // the end of standard input is ours
		}
		took, err := j.do(ctx)
		if err != nil {
			return err
		}
		if err := out.Encode(note{Took: took, Used: harness.Processor()}); err != nil {
			return err
		}
	}
}

// do sends rounds by each way in turn, so that what else the machine does
// touches all alike. The first of each is not counted: it opens the window.
func (j job) do(ctx context.Context) (took [ways]harness.Samples, err error) {
	conns, err := j.dial(ctx)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close() // all was answered
			}
		}
	}()
	if err != nil {
		return took, err
	}
	data := make([]byte, min(j.Size, 256<<10))
	for round := range j.Rounds + 1 {
		for way, c := range conns {
			if c == nil {
				continue
			}
			begun := time.Now()
			if err := send(c, data, j.Size); err != nil {
				return took, err
			}
			if round > 0 {
				took[way] = append(took[way], time.Since(begun))
			}
		}
	}
	return took, nil
}

// dial connects by each way, and sends how many bytes make a round.
func (j job) dial(ctx context.Context) (conns []net.Conn, err error) {
	d := net.Dialer{Timeout: harness.Patience}
	for _, address := range j.Addresses {
		if address == "" {
			conns = append(conns, nil)
			continue
		}
		c, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return conns, err
		}
		conns = append(conns, c)
		if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(j.Size))); err != nil {
			return conns, err
		}
	}
	return conns, nil
}

// send sends one round, and waits for its answer.
func send(c net.Conn, data []byte, size int64) error {
	for left := size; left > 0; {
		n, err := c.Write(data[:min(left, int64(len(data)))])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}
