package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/archive"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// devPatience is how long the sample elections may take to be ready. They take
// a fraction of a second. The rest is for a machine that is busy.
const devPatience = 20 * time.Second

// A sample is a group with its candidates, the first of which is to lead first.
// begun and ended count the terms that the history has to show before the
// command runs: candidates' advisories arrive a little later than the events.
type sample struct {
	group      string
	candidates []leader.ElectionConfig
	// then is what happens in the group before anybody looks at it.
	then func(ctx context.Context, c *leader.Control, group string) error
	// begun and ended are the numbers of terms at that time.
	begun, ended int
}

// sampleGroups has something to show for every column of every command.
func sampleGroups() []sample {
	named := func(id string) leader.ElectionConfig {
		return leader.ElectionConfig{InstanceID: id, Address: id + ".example:8080"}
	}
	ranked := func(id string, priority int) leader.ElectionConfig {
		cfg := named(id)
		cfg.Priority, cfg.AllowPriorityTakeover = priority, true
		return cfg
	}
	versioned := func(id, version string) leader.ElectionConfig {
		cfg := named(id)
		cfg.Version, cfg.Meta = version, map[string]string{"zone": "us-east"}
		return cfg
	}
	sick := versioned("us-3", "1.4.2")
	sick.HealthChecker, sick.HealthCheckInterval, sick.MaxConsecutiveFailures = unfit{}, 20*time.Millisecond, 1
	return []sample{
		{"reports", []leader.ElectionConfig{named("worker-1"), named("worker-2"), named("worker-3")}, handOverOnce, 2, 1},
		{"jobs.eu", []leader.ElectionConfig{ranked("eu-1", 30), ranked("eu-2", 20), ranked("eu-3", 10)}, nil, 1, 0},
		{"jobs.us", []leader.ElectionConfig{versioned("us-1", "1.4.2"), versioned("us-2", "1.5.0"), sick}, nil, 1, 0},
		{"billing", []leader.ElectionConfig{named("bill-1"), named("bill-2"), named("bill-3")}, pauseIt, 1, 1},
	}
}

// handOverOnce gives a group a second term, with who asked for it and why.
func handOverOnce(ctx context.Context, c *leader.Control, group string) error {
	_, err := c.Transfer(ctx, group, "worker-2", "worker-1 gets a new disk")
	return err
}

// pauseIt leaves a group that nobody leads, on purpose.
func pauseIt(ctx context.Context, c *leader.Control, group string) error {
	_, err := c.Pause(ctx, group, "database migration")
	return err
}

// unfit never finds its host fit to lead.
type unfit struct{}

// Check reports false.
func (unfit) Check(context.Context) bool { return false }

// samples are running elections. They run in the process of the command, and
// look to it like any user's: they have their own connection.
type samples struct {
	nc     *nats.Conn
	bucket string

	mu      sync.Mutex
	started []leader.Election

	end      context.CancelFunc // of the changes
	changing sync.WaitGroup
}

// startSamples makes the bucket and its history and starts the elections. It
// returns when each is as it is to be shown. A command that looked earlier
// would show a group without a leader, or one without its past, and not the
// next time.
func startSamples(url, bucket string) (_ *samples, err error) {
	nc, err := natsconn.Settings{URL: url}.Connect("leader sample elections")
	if err != nil {
		return nil, err
	}
	s := &samples{nc: nc, bucket: bucket, end: func() {}}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), devPatience)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, js, bucket); err != nil {
		return nil, err
	}
	if err := s.startAll(ctx, func(g sample) error { return g.recorded(ctx, js, bucket) }); err != nil {
		return nil, err
	}
	return s, nil
}

// control returns what steers them, in the name of somebody. Its name is not
// the user's, so that one sees whose request is shown where.
func (s *samples) control() (*leader.Control, error) {
	return leader.NewControl(s.nc, s.bucket, "ann")
}

// elect returns a candidate. It has not been started. It reports
// itself in all ways that the commands can show.
func (s *samples) elect(cfg leader.ElectionConfig) (leader.Election, error) {
	cfg.Bucket = s.bucket
	cfg.Hooks = leader.JoinHooks(advisory.Hooks(s.nc, advisory.Options{}), rollcall.Hooks(s.nc))
	return leader.NewElection(s.nc, cfg)
}

// prepare makes the bucket and its history, before there is anything to keep in
// it.
func prepare(ctx context.Context, js jetstream.JetStream, bucket string) error {
	if err := natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: bucket}); err != nil {
		return err
	}
	_, _, err := archive.Enable(ctx, js, bucket, archive.Limits{Age: time.Hour, Bytes: 16 << 20})
	return err
}

// startAll starts all groups at the same time. Each has reached its state when
// ready has returned. If they started one after the other, the user would wait
// for the sum of them.
func (s *samples) startAll(ctx context.Context, ready func(sample) error) error {
	control, err := s.control()
	if err != nil {
		return err
	}
	defer control.Close()
	groups := sampleGroups()
	errs := make([]error, len(groups))
	var all sync.WaitGroup
	for i, g := range groups {
		all.Go(func() {
			err := s.startOne(ctx, g, control)
			if err == nil {
				err = ready(g)
			}
			if err != nil {
				errs[i] = fmt.Errorf("sample election %s: %w", g.group, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// startOne starts the candidates of a group one after the other: the first
// finds nobody and leads, and the others follow. The group then looks the same
// each time, as the help and the documentation show it. The lease is long, so
// that a busy machine does not lose it.
func (s *samples) startOne(ctx context.Context, g sample, control *leader.Control) error {
	for _, cfg := range g.candidates {
		cfg.Group = g.group
		cfg.TTL, cfg.HeartbeatInterval, cfg.DeleteOnStop = 5*time.Second, 500*time.Millisecond, true
		// The server began with an empty directory: there was no bucket before
		// this one.
		cfg.AcquireGrace = leader.GraceOff
		e, err := s.elect(cfg)
		if err != nil {
			return err
		}
		s.add(e)
		if err := e.Start(context.WithoutCancel(ctx)); err != nil { // which ends it when it is done
			return err
		}
		if err := seesLeader(ctx, e); err != nil {
			return err
		}
		if cfg.HealthChecker != nil && !barred(ctx, e) {
			return ctx.Err()
		}
	}
	if g.then == nil {
		return nil
	}
	return g.then(ctx, control, g.group)
}

// recorded waits until the history has the group's terms: candidates publish
// beside their work what happens to them. Nothing reports when the history has
// stored a message, so recorded looks again and again, for as long as ctx
// lasts.
func (g sample) recorded(ctx context.Context, js jetstream.JetStream, bucket string) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		h, err := archive.Read(ctx, js, bucket, g.group)
		if err != nil {
			return err
		}
		begun, ended := 0, 0
		for _, a := range h.Advisories {
			switch a.Event {
			case leader.EventPromoted:
				begun++
			case leader.EventDemoted:
				ended++
			default:
			}
		}
		if begun >= g.begun && ended >= g.ended {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// seesLeader waits until the candidate leads or follows: so the first leads,
// and the history has an order. It fails only at the end of ctx.
func seesLeader(ctx context.Context, e leader.Election) error {
	for info := range e.Observe(ctx) {
		if info.ID != "" {
			return nil
		}
	}
	return ctx.Err()
}

// barred waits until something keeps the candidate from campaigning, and
// reports whether that came before ctx ended.
func barred(ctx context.Context, e leader.Election) bool {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for e.Status().Barred == "" {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// changeEvery is the time from one change of the leader of the first group to
// the next, for who follows live. Less would be hard to read, and more would
// look as if nothing happened.
const changeEvery = 5 * time.Second

// keepChanging lets the candidates of the first group lead in turns, until
// stop. A goroutine does that, for which stop waits: its requests need the
// connection. A turn that fails is left out, since the next will do as well.
func (s *samples) keepChanging() {
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	s.changing.Go(func() {
		control, err := s.control()
		if err != nil {
			return // it worked when the elections were prepared
		}
		defer control.Close()
		turn := time.NewTicker(changeEvery)
		defer turn.Stop()
		group := sampleGroups()[0]
		for next := 2; ; next++ { // the second leads already
			select {
			case <-ctx.Done():
				return
			case <-turn.C:
			}
			successor := group.candidates[next%len(group.candidates)].InstanceID
			_, _ = control.Transfer(ctx, group.group, successor, "so that there is something to see") // or at the next turn
		}
	})
}

// add has stop stop the election. The groups are started at the same time.
func (s *samples) add(e leader.Election) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, e)
}

// stop stops all elections. They release nothing: their server ends with them.
// The changes end first, so that no request waits for a candidate that is gone.
func (s *samples) stop() {
	s.end()
	s.changing.Wait()
	var all sync.WaitGroup
	for _, e := range s.started {
		all.Go(func() {
			// If it fails, nobody is left to mind.
			_ = e.StopWithContext(context.Background(), leader.StopOptions{Timeout: time.Second})
		})
	}
	all.Wait()
	s.nc.Close()
}
