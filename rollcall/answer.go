package rollcall

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// maxAsked is how many questions may wait for one candidate. More are dropped:
// a flood of them must not fill the memory.
const maxAsked = 256

// Hooks returns hooks with which an election answers from its start to its
// stop: see leader.JoinHooks. The connection stays the caller's, and may be the
// election's. If it cannot subscribe (it is closed), the election runs and does
// not answer.
func Hooks(nc *nats.Conn) leader.Hooks {
	return leader.Hooks{PerElection: func(e leader.Election, cfg leader.ElectionConfig) leader.Hooks {
		stop, err := Answer(nc, cfg, e)
		if err != nil {
			return leader.Hooks{}
		}
		return leader.Hooks{Transition: func(t leader.Transition) {
			if t.Event == leader.EventStopped {
				stop()
			}
		}}
	}}
}

// Answer lets an election answer until stop is called, which may be done more
// than once. cfg is the election's configuration, whose Bucket must be named.
// Most programs use [Hooks] instead.
//
// A missing right to subscribe is not an error here: it is reported to the
// connection's error handler.
func Answer(nc *nats.Conn, cfg leader.ElectionConfig, e leader.Election) (stop func(), err error) {
	sub, err := nc.Subscribe(Subject(cfg.Bucket, cfg.Group), func(m *nats.Msg) {
		if !forAnswers(m.Reply) {
			return
		}
		// The election asks the store, which may be of another's making, and
		// this goroutine is the connection's.
		shield.Call(func() {
			if data, err := json.Marshal(answer(e, cfg, time.Now())); err == nil {
				_ = nc.Publish(m.Reply, data) // who asked gave up, or asks again
			}
		}, func(value any, stack []byte) { panicked(cfg, value, stack) })
	})
	if err != nil {
		return nil, err
	}
	if err := sub.SetPendingLimits(maxAsked, -1); err != nil {
		_ = sub.Unsubscribe()
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, nil // it fails if it is done already, or the connection closed
}

// panicked reports a panic to the configuration's Logger.
func panicked(cfg leader.ElectionConfig, value any, stack []byte) {
	if cfg.Logger == nil {
		return // as for all else, none means silence
	}
	shield.Call(func() {
		cfg.Logger.Error("panic", "of", "an answer to a roll call", "group", cfg.Group, "value", shield.Value(value), "stack", string(stack))
	}, func(any, []byte) {})
}

// answer describes an election.
func answer(e leader.Election, cfg leader.ElectionConfig, now time.Time) Candidate {
	st := e.Status()
	c := Candidate{
		Format: Format, Bucket: cfg.Bucket, Group: cfg.Group, Instance: cfg.InstanceID,
		State: st.State, Since: st.LastTransition.UTC(), Reason: st.Reason,
		Leader: st.LeaderID, Term: st.LeaderTerm,
		Priority: cfg.Priority, Version: cfg.Version, Address: cfg.Address,
		Barred: st.Barred, Connection: st.ConnectionStatus,
	}
	if st.LastError != nil {
		text := st.LastError.Error()
		c.Error = strings.ToValidUTF8(text[:min(len(text), maxText)], "")
	}
	switch {
	case st.IsLeader:
		c.TrustLeft, c.Lag = millis(st.TrustUntil.Sub(now)), millis(now.Sub(st.LastHeartbeat))
	case st.LeaderID != "":
		left := present(e).Until.Sub(now)
		c.TrustLeft, c.Lag = millis(left), millis(wait(cfg)-left)
	}
	return c
}

// present is who leads as the election sees it.
func present(e leader.Election) (info leader.LeaderInfo) {
	for info = range e.Observe(context.Background()) {
		break // the first is there at once
	}
	return info
}

// wait is how long a follower leaves a lease alone after its latest renewal.
func wait(cfg leader.ElectionConfig) time.Duration {
	drift := cfg.ClockDrift
	if drift == 0 {
		drift = leader.DefaultClockDrift
	}
	return cfg.TTL + time.Duration(float64(cfg.TTL)*drift)
}

func millis(d time.Duration) int64 { return max(0, d.Milliseconds()) }
