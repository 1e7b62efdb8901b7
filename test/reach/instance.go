package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/overlap"
)

const (
	bucket = "reach"
	group  = "reach"
)

// serviceConfig is the configuration for clients in the record: calls wait for
// a leader.
const serviceConfig = `{"methodConfig": [{"name": [{"service": "reach.Reach"}], "waitForReady": true}]}`

// An event is a report of an instance to its parent, a line each.
type event struct {
	ID string `json:"id"`
	// Ready: it knows who leads, and serves at an address.
	Ready   bool   `json:"ready,omitempty"`
	Address string `json:"address,omitempty"`
	// Held: its handler keeps the call of this number.
	Held int `json:"held,omitempty"`
	// Promotion: it has started to lead.
	Promotion *promotion `json:"promotion,omitempty"`
	At        time.Time  `json:"at"`
}

// A part is the configuration of an instance's process.
type part struct {
	id, url, journals string
	over              protocol
}

// beInstance is the process of an instance. It stops as a program does that is
// asked to: the leadership first, and the server when its input ends. A line
// has it give up the leadership before that.
func beInstance(ctx context.Context, p part, stdin io.Reader, stdout io.Writer) error {
	nc, err := nats.Connect(p.url, nats.Timeout(harness.Patience), nats.MaxReconnects(-1), nats.ReconnectWait(ttl/10))
	if err != nil {
		return err
	}
	defer nc.Close()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	j, err := openJournal(p.journals, p.id)
	if err != nil {
		return err
	}
	say := harness.NewSpeaker(stdout).Say
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: bucket, Group: group, InstanceID: p.id, TTL: ttl, HeartbeatInterval: ttl / 5, DeleteOnStop: true,
		Address: l.Addr().String(), ConnectionParams: []byte(serviceConfig), AcquireGrace: leader.GraceOff, Hooks: promotionHooks(p.id, say),
	})
	if err != nil {
		return err
	}
	s := p.over.serve(e, j, answers(p.id, j, say))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	if err := e.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	for info := range e.Observe(ctx) {
		if info.ID != "" {
			break
		}
	}
	say(event{ID: p.id, Ready: true, Address: l.Addr().String(), At: time.Now()})
	in := bufio.NewReader(stdin)
	if _, err = in.ReadString('\n'); errors.Is(err, io.EOF) {
		err = nil
	}
	err = errors.Join(err, e.Stop())
	_, ended := io.Copy(io.Discard, in)
	return errors.Join(err, ended, s.Leave(), <-served)
}

// promotionHooks returns hooks that report the beginnings of terms.
func promotionHooks(id string, say func(any)) leader.Hooks {
	var from atomic.Int64
	return leader.Hooks{
		// It is asked for when the term is about to begin.
		TermContext: func(ctx context.Context, _ leader.Term) context.Context {
			from.Store(overlap.Now())
			return ctx
		},
		Transition: func(t leader.Transition) {
			if t.To == leader.StateLeader {
				say(event{ID: id, At: t.At, Promotion: &promotion{id, from.Load(), overlap.Now()}})
			}
		},
	}
}

// answers returns the ID of the instance that runs a call. It keeps a call that
// asks for that, as long as its caller wants.
func answers(id string, j *journal, say func(any)) handler {
	return func(ctx context.Context, text string) (string, error) {
		number, hold, err := parseText(text)
		if err != nil {
			return "", err
		}
		j.run(ctx, number)
		if hold == id {
			say(event{ID: id, Held: number, At: time.Now()})
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		return id, nil
	}
}
