package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// NATS carries the messages of leaders and workers over core NATS, on these
// subjects, where the group's dots stay:
//
//	leader-tasks.up.<group>            from workers to the leader
//	leader-tasks.all.<group>           from the leader to all workers
//	leader-tasks.to.<worker>.<group>   from the leader to one
//
// Messages are JSON (package wire). Grant only candidates the right to publish
// on the latter two, and only a worker the right to publish on the first and to
// subscribe to its own: a message with a forged term keeps every real leader
// from being obeyed.
type NATS struct {
	nc  *nats.Conn
	log *slog.Logger
}

var (
	_ Hub  = (*NATS)(nil)
	_ Link = (*NATS)(nil)
)

// NewNATS returns the transport over a connection, which stays the caller's and
// may be shared. Nothing is sent before it is used. Messages that do not fit
// into the client's buffers while the connection is down are lost, and
// repeated.
func NewNATS(nc *nats.Conn) *NATS { return &NATS{nc: nc, log: slog.New(slog.DiscardHandler)} }

// WithLogger returns the transport with a logger for messages that cannot be
// read or sent.
func (n *NATS) WithLogger(l *slog.Logger) *NATS { return &NATS{nc: n.nc, log: orSilent(l)} }

// Open implements [Hub].
func (n *NATS) Open(_ context.Context, group string, hear func(wire.FromWorker)) (Conn, error) {
	sub, err := subscribe(n, "leader-tasks.up."+group, hear)
	if err != nil {
		return nil, err
	}
	return &natsConn{n: n, group: group, subs: []*nats.Subscription{sub}}, nil
}

// Join implements [Link].
func (n *NATS) Join(_ context.Context, group, worker string, hear func(wire.ToWorker)) (Seat, error) {
	own, err := subscribe(n, "leader-tasks.to."+worker+"."+group, hear)
	if err != nil {
		return nil, err
	}
	c := &natsConn{n: n, group: group, subs: []*nats.Subscription{own}}
	all, err := subscribe(n, "leader-tasks.all."+group, hear)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.subs = append(c.subs, all)
	return c, nil
}

func subscribe[M any](n *NATS, subject string, hear func(M)) (*nats.Subscription, error) {
	caused := &warner{log: n.log}
	sub, err := n.nc.Subscribe(subject, func(msg *nats.Msg) {
		var m M
		if err := json.Unmarshal(msg.Data, &m); err != nil {
			caused.warn("a message cannot be read", "subject", msg.Subject, "error", err)
			return
		}
		hear(m)
	})
	if err != nil {
		return nil, fmt.Errorf("tasks: subscribing to %s: %w", subject, err)
	}
	return sub, nil
}

// A natsConn is either end.
type natsConn struct {
	n     *NATS
	group string
	subs  []*nats.Subscription
}

// Send implements [Conn].
func (c *natsConn) Send(worker string, m wire.ToWorker) {
	if worker == "" {
		c.publish("leader-tasks.all."+c.group, m)
		return
	}
	c.publish("leader-tasks.to."+worker+"."+c.group, m)
}

// Say implements [Seat].
func (c *natsConn) Say(m wire.FromWorker) { c.publish("leader-tasks.up."+c.group, m) }

func (c *natsConn) publish(subject string, m any) {
	data, err := json.Marshal(m)
	if err == nil {
		err = c.n.nc.Publish(subject, data)
	}
	if err != nil {
		c.n.log.Warn("a message cannot be sent", "subject", subject, "error", err)
	}
}

// Close implements [Conn] and [Seat]. It returns when no function runs that a
// message called.
func (c *natsConn) Close() {
	for _, sub := range c.subs {
		closed := make(chan struct{})
		sub.SetClosedHandler(func(string) { close(closed) })
		if sub.Unsubscribe() == nil {
			<-closed
		}
	}
}
