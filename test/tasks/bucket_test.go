// Package tasks_test shows the tasks of a leader over real servers of NATS.
package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func bucket(t *testing.T, nc *nats.Conn, cfg tasks.BucketConfig) *tasks.Bucket {
	t.Helper()
	if cfg.Bucket == "" {
		cfg.Bucket = "work"
	}
	if cfg.Group == "" {
		cfg.Group = "g"
	}
	cfg.Create = true
	var b *tasks.Bucket
	natslab.Eventually(t, "the bucket", func(ctx context.Context) (err error) {
		b, err = tasks.OpenBucket(ctx, natslab.JetStream(t, nc), cfg)
		return err
	})
	t.Cleanup(b.Close)
	return b
}

// lead has a dispatcher work in a term, until end is called.
func lead(t *testing.T, b *tasks.Bucket, nc *nats.Conn, term uint64) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d := tasks.NewDispatcher(b, tasks.DispatcherOptions{Group: "g"}, tasks.NewNATS(nc))
	var all sync.WaitGroup
	all.Go(func() {
		if err := d.Lead(ctx, leader.Term{Number: term, Token: fmt.Sprint("token", term)}); err != nil {
			t.Errorf("term %d: %v", term, err)
		}
	})
	end = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(end)
	return end
}

func work(t *testing.T, nc *nats.Conn, name string, h tasks.Handler) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := tasks.NewWorker(tasks.NewNATS(nc), h, tasks.WorkerOptions{Group: "g", Name: name, Capacity: 4})
	var all sync.WaitGroup
	all.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("worker %s: %v", name, err)
		}
	})
	end = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(end)
	return end
}

func echo(_ context.Context, t tasks.Task) ([]byte, error) { return t.Payload, nil }

func submit(t *testing.T, b *tasks.Bucket, s tasks.Spec) {
	t.Helper()
	if _, err := tasks.Submit(natslab.Within(t), b, s); err != nil {
		t.Fatal(err)
	}
}

func finished(t *testing.T, b *tasks.Bucket, id string) tasks.Status {
	t.Helper()
	s, err := tasks.Wait(natslab.Within(t), b, id)
	if err != nil || s.State != tasks.Done {
		t.Fatalf("task %s: %+v, %v", id, s, err)
	}
	return s
}

func TestTasksGoThroughAServerAndAClusterWithElections(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() (*nats.Conn, int){
		"server":  func() (*nats.Conn, int) { return natslab.Start(t).Connect(t), 1 },
		"cluster": func() (*nats.Conn, int) { return natslab.StartCluster(t, 3).Connect(t), 3 },
	} {
		t.Run(name, func(t *testing.T) {
			nc, replicas := start()
			b := bucket(t, nc, tasks.BucketConfig{Replicas: replicas})
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer all.Wait()
			defer cancel()
			d := tasks.NewDispatcher(b, tasks.DispatcherOptions{Group: "g"}, tasks.NewNATS(nc))
			all.Go(func() {
				cfg := leader.ElectionConfig{
					Bucket: "leaders", BucketAutoCreate: true, Replicas: replicas, Group: "g", InstanceID: "one",
					TTL: 15 * time.Second, HeartbeatInterval: time.Second, AcquireGrace: leader.GraceOff,
				}
				if err := leader.Run(ctx, nc, cfg, d.Lead); err != nil {
					t.Error(err)
				}
			})
			work(t, nc, "w", echo)
			for i := range 50 {
				submit(t, b, tasks.Spec{ID: fmt.Sprint(i), Payload: []byte(fmt.Sprint("p", i))})
			}
			for i := range 50 {
				if s := finished(t, b, fmt.Sprint(i)); string(s.Result) != fmt.Sprint("p", i) || s.Term == 0 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

func TestWritesExpectTheRevisionAndDistinguishConflicts(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	b := bucket(t, srv.Connect(t), tasks.BucketConfig{})
	put := func(w tasks.Write) (uint64, error) {
		revs, errs := make(chan uint64, 1), make(chan error, 1)
		b.Write(w, func(rev uint64, err error) { revs <- rev; errs <- err })
		return <-revs, <-errs
	}
	rec := wire.Record{State: wire.Queued}
	first, err := put(tasks.Write{ID: "a", Record: rec})
	if err != nil {
		t.Fatal(err)
	}
	for _, expected := range []uint64{0, first - 1, first + 1} {
		if _, err := put(tasks.Write{ID: "a", Expected: expected, Record: rec}); !errors.Is(err, tasks.ErrConflict) {
			t.Errorf("a write on revision %d: %v", expected, err)
		}
	}
	second, err := put(tasks.Write{ID: "a", Expected: first, Record: rec})
	if err != nil || second <= first {
		t.Errorf("revision %d, %v", second, err)
	}
	if _, err := b.Read(natslab.Within(t), "none"); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("no task was read: %v", err)
	}
}

// Otherwise Submit and a dispatcher would wait forever for a server that is gone.
func TestWritesEndWithoutAServerAndWithTheBucket(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{})
	gone := nc.StatusChanged(nats.RECONNECTING)
	srv.Stop()
	<-gone
	write := func() chan error {
		answer := make(chan error, 1)
		b.Write(tasks.Write{ID: "a", Record: wire.Record{State: wire.Queued}}, func(_ uint64, err error) { answer <- err })
		return answer
	}
	if err := <-write(); !errors.Is(err, jetstream.ErrAsyncPublishTimeout) {
		t.Errorf("without a server: %v", err)
	}
	waiting := write()
	b.Close()
	if err := <-waiting; !errors.Is(err, jetstream.ErrJetStreamPublisherClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// An open task with the TTL of the finished one before it would be lost.
func TestAnOpenTaskHasNothingOfTheFinishedOneThatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{})
	for i := range 50 {
		for _, w := range []tasks.Write{
			{ID: fmt.Sprint("finished", i), Record: wire.Record{State: wire.Done, Term: 7}},
			{ID: fmt.Sprint("open", i), Record: wire.Record{State: wire.Queued}},
		} {
			answer := make(chan error, 1)
			b.Write(w, func(_ uint64, err error) { answer <- err })
			if err := <-answer; err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := natslab.JetStream(t, nc).Stream(natslab.Within(t), "KV_work")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		for id, want := range map[string][3]string{"finished": {"0", "7", "3600s"}, "open": {"0"}} {
			m, err := s.GetLastMsgForSubject(natslab.Within(t), fmt.Sprint("$KV.work.t.g.", id, i))
			if err != nil {
				t.Fatal(err)
			}
			h := m.Header
			if got := [3]string{h.Get("Nats-Expected-Last-Subject-Sequence"), h.Get("Leader-Tasks-Term"), h.Get("Nats-TTL")}; got != want {
				t.Errorf("%s%d: %q, want %q", id, i, got, want)
			}
		}
	}
}

func TestFinishedTasksGoByThemselvesAndOpenOnesStay(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{Keep: time.Second})
	lead(t, b, nc, 1)
	work(t, nc, "w", echo)
	submit(t, b, tasks.Spec{ID: "open", To: tasks.Target{Worker: "nobody"}})
	submit(t, b, tasks.Spec{ID: "done"})
	natslab.Eventually(t, "the finished task is gone", func(ctx context.Context) error {
		s, err := tasks.Look(ctx, b, "done")
		if errors.Is(err, tasks.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("%+v, %w", s, err)
	})
	if s, err := tasks.Look(natslab.Within(t), b, "open"); err != nil || s.State != tasks.Queued {
		t.Errorf("%+v, %v", s, err)
	}
}

// The server adds the time to the record's own time.
func TestRecordWithTheLongestRetentionIsKept(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{Keep: math.MaxInt64})
	lead(t, b, nc, 1)
	work(t, nc, "w", echo)
	submit(t, b, tasks.Spec{ID: "kept"})
	finished(t, b, "kept")
	// By then the server has removed what has expired.
	brief := bucket(t, nc, tasks.BucketConfig{Keep: time.Second})
	answer := make(chan error, 1)
	brief.Write(tasks.Write{ID: "brief", Record: wire.Record{State: wire.Done}}, func(_ uint64, err error) { answer <- err })
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "the end of a record", func(ctx context.Context) error {
		if _, err := tasks.Look(ctx, b, "brief"); !errors.Is(err, tasks.ErrNotFound) {
			return fmt.Errorf("it is stored: %w", err)
		}
		return nil
	})
	if s, err := tasks.Look(natslab.Within(t), b, "kept"); err != nil || s.State != tasks.Done {
		t.Errorf("%+v, %v", s, err)
	}
}

// A leader reads from the checkpoint on, and finds what is open all the same.
func TestTheNextLeaderReadsFromTheCheckpointAndMissesNothing(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{})
	end := lead(t, b, nc, 1)
	endWorker := work(t, nc, "w", echo)
	for i := range 100 {
		submit(t, b, tasks.Spec{ID: fmt.Sprint(i)})
	}
	for i := range 100 {
		finished(t, b, fmt.Sprint(i))
	}
	kv, err := natslab.JetStream(t, nc).KeyValue(natslab.Within(t), "work")
	if err != nil {
		t.Fatal(err)
	}
	done, err := kv.Get(natslab.Within(t), "t.g.99")
	if err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "a checkpoint behind the finished tasks", func(ctx context.Context) error {
		mark, err := kv.Get(ctx, "m.g")
		if err != nil {
			return err
		}
		var at uint64
		if _, err := fmt.Sscan(string(mark.Value()), &at); err != nil || at < done.Revision() {
			return fmt.Errorf("%d, and the last task is done at %d: %w", at, done.Revision(), err)
		}
		return nil
	})
	endWorker()
	submit(t, b, tasks.Spec{ID: "open"})
	end()
	told, known := 0, make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() {
		watched <- b.Watch(ctx, tasks.Watch{Deliver: func(tasks.Entry) { told++ }, Present: func() { close(known) }})
	}()
	<-known
	cancel()
	if err := <-watched; err != nil || told > 10 {
		t.Errorf("a watch delivers %d records, %v", told, err)
	}
	lead(t, b, nc, 2)
	work(t, nc, "w", echo)
	finished(t, b, "open")
}

// The records that are pending when one is sent may expire before their turn
// comes, so that none is ever sent as the last one.
func TestAWatchIsCompleteThoughItsLastRecordsAreGone(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{})
	js := natslab.JetStream(t, nc)
	// More than a watch asks for at once.
	for i := range 2100 {
		if _, err := js.PublishAsync(fmt.Sprint("$KV.work.t.g.", i), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-natslab.Within(t).Done():
		t.Fatal("the records were not stored")
	}
	stream, err := js.Stream(natslab.Within(t), "KV_work")
	if err != nil {
		t.Fatal(err)
	}
	present, told := make(chan struct{}), 0
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() {
		watched <- b.Watch(ctx, tasks.Watch{Present: func() { close(present) }, Deliver: func(tasks.Entry) {
			told++
			if told == 1 {
				if err := stream.Purge(natslab.Within(t), jetstream.WithPurgeSubject("$KV.work.t.g.*")); err != nil {
					t.Error(err)
				}
			}
		}})
	}()
	select {
	case <-present:
	case <-natslab.Within(t).Done():
		t.Errorf("the initial state is not complete after %d records", told)
	}
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}

func TestTasksGoOnAfterTheServerWasAway(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{})
	lead(t, b, nc, 1)
	work(t, nc, "w", echo)
	submit(t, b, tasks.Spec{ID: "before"})
	finished(t, b, "before")
	srv.Restart()
	submit(t, b, tasks.Spec{ID: "after"})
	finished(t, b, "after")
}

func TestGroupsInOneBucketDoNotMeet(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{})
	other := bucket(t, nc, tasks.BucketConfig{Group: "g.h"})
	submit(t, b, tasks.Spec{ID: "x", Payload: []byte("g")})
	submit(t, other, tasks.Spec{ID: "x", Payload: []byte("g.h")})
	lead(t, b, nc, 1)
	work(t, nc, "w", echo)
	if s := finished(t, b, "x"); string(s.Result) != "g" {
		t.Errorf("%+v", s)
	}
	if s, err := tasks.Look(natslab.Within(t), other, "x"); err != nil || s.State != tasks.Queued {
		t.Errorf("%+v, %v", s, err)
	}
}

// People look at tasks with the tools for key-value buckets, and may delete
// one.
func TestATaskThatIsDeletedByHandIsRevoked(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{})
	lead(t, b, nc, 1)
	// A worker that is not heard of for a while, on a busy machine, is given
	// the task again.
	begun, ended := make(chan struct{}, 100), make(chan error, 100)
	work(t, nc, "w", func(ctx context.Context, _ tasks.Task) ([]byte, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, nil
	})
	submit(t, b, tasks.Spec{ID: "x"})
	<-begun
	kv, err := natslab.JetStream(t, nc).KeyValue(natslab.Within(t), "work")
	if err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(natslab.Within(t), "t.g.x"); err != nil || len(e.Value()) == 0 {
		t.Fatalf("%v", err)
	}
	if err := kv.Delete(natslab.Within(t), "t.g.x"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, tasks.ErrRevoked) {
		t.Errorf("the handler's context ended for %v", err)
	}
}

// A record of its absence is left, with a separate revision.
func TestATaskThatWasDeletedByHandIsSubmittedAgain(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{})
	lead(t, b, nc, 1)
	work(t, nc, "w", echo)
	kv, err := natslab.JetStream(t, nc).KeyValue(natslab.Within(t), "work")
	if err != nil {
		t.Fatal(err)
	}
	submit(t, b, tasks.Spec{ID: "x", Payload: []byte("first")})
	finished(t, b, "x")
	if err := kv.Delete(natslab.Within(t), "t.g.x"); err != nil {
		t.Fatal(err)
	}
	if _, err := tasks.Look(natslab.Within(t), b, "x"); !errors.Is(err, tasks.ErrNotFound) {
		t.Error(err)
	}
	submit(t, b, tasks.Spec{ID: "x", Payload: []byte("second")})
	if s := finished(t, b, "x"); string(s.Result) != "second" {
		t.Errorf("%+v", s)
	}
}

// A bucket that another tool made answers direct reads, also from replicas that
// lag. A leader would take an open task for one that was deleted, and nobody
// would run it before the next term.
func TestATaskIsReadFromTheLeaderOfItsStreamInAnyBucket(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	js := natslab.JetStream(t, nc)
	natslab.Eventually(t, "the bucket", func(ctx context.Context) error {
		_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "work", LimitMarkerTTL: time.Hour})
		return err
	})
	b, err := tasks.OpenBucket(natslab.Within(t), js, tasks.BucketConfig{Bucket: "work", Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	submit(t, b, tasks.Spec{ID: "x"})
	watcher := srv.Connect(t)
	asked, err := watcher.SubscribeSync("$JS.API.>")
	if err == nil {
		err = watcher.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tasks.Look(natslab.Within(t), b, "x"); err != nil {
		t.Fatal(err)
	}
	m, err := asked.NextMsgWithContext(natslab.Within(t))
	if err != nil || m.Subject != "$JS.API.STREAM.MSG.GET.KV_work" {
		t.Errorf("it was asked for by %+v, %v", m, err)
	}
}

func TestABucketInWhichTasksWouldGetLostIsRefused(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	for name, cfg := range map[string]jetstream.KeyValueConfig{
		"ages":   {Bucket: "ages", TTL: time.Hour},
		"no_ttl": {Bucket: "no_ttl"},
		// When the record of a finished task has expired, the record before it
		// would become current again, in which the task is assigned.
		"history": {Bucket: "history", LimitMarkerTTL: time.Second, History: 2},
		"memory":  {Bucket: "memory", LimitMarkerTTL: time.Second, Storage: jetstream.MemoryStorage},
	} {
		natslab.KV(t, nc, cfg)
		_, err := tasks.OpenBucket(natslab.Within(t), natslab.JetStream(t, nc), tasks.BucketConfig{Bucket: cfg.Bucket, Group: "g"})
		if !errors.Is(err, tasks.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	js := natslab.JetStream(t, nc)
	if _, err := js.CreateStream(natslab.Within(t), jetstream.StreamConfig{
		Name: "KV_async", Subjects: []string{"$KV.async.>"}, MaxMsgsPerSubject: 1, AllowMsgTTL: true, Discard: jetstream.DiscardNew, PersistMode: jetstream.AsyncPersistMode,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := tasks.OpenBucket(natslab.Within(t), js, tasks.BucketConfig{Bucket: "async", Group: "g"}); !errors.Is(err, tasks.ErrInvalid) {
		t.Errorf("async: %v", err)
	}
	for _, bucket := range []string{"memory", "async"} { // as was asked for
		b, err := tasks.OpenBucket(natslab.Within(t), js, tasks.BucketConfig{Bucket: bucket, Group: "g", Memory: true})
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
	for name, cfg := range map[string]tasks.BucketConfig{
		"bucket": {Bucket: "a.b", Group: "g"}, "group": {Bucket: "b", Group: "*"}, "replicas": {Bucket: "b", Group: "g", Replicas: -1},
	} {
		if _, err := tasks.OpenBucket(natslab.Within(t), natslab.JetStream(t, nc), cfg); !errors.Is(err, tasks.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := tasks.OpenBucket(natslab.Within(t), natslab.JetStream(t, nc), tasks.BucketConfig{Bucket: "none", Group: "g"}); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("no bucket: %v", err)
	}
}
