package tasks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A diary is the text of a log.
type diary struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

func (d *diary) contains(s string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Contains(d.text.String(), s)
}

// await waits until the diary contains all of the texts.
func (d *diary) await(t *testing.T, texts ...string) {
	t.Helper()
	for _, s := range texts {
		natslab.Eventually(t, s+" is logged", func(context.Context) error {
			if !d.contains(s) {
				return errors.New("it is not")
			}
			return nil
		})
	}
}

// A reign is a term of a dispatcher, with its log.
type reign struct {
	*tasks.Dispatcher

	said *diary
	end  func()
}

// leadLogging is lead, with the dispatcher's log.
func leadLogging(t *testing.T, b *tasks.Bucket, nc *nats.Conn, term uint64) reign {
	t.Helper()
	said := &diary{}
	ctx, cancel := context.WithCancel(t.Context())
	d := tasks.NewDispatcher(b, tasks.DispatcherOptions{Group: "g", Logger: slog.New(slog.NewTextHandler(said, nil))}, tasks.NewNATS(nc))
	returned := make(chan error, 1)
	go func() { returned <- d.Lead(ctx, leader.Term{Number: term, Token: fmt.Sprint("token", term)}) }()
	return reign{d, said, func() {
		t.Helper()
		cancel()
		select {
		case err := <-returned:
			if err != nil {
				t.Error(err)
			}
		case <-natslab.Within(t).Done():
			t.Fatalf("term %d: Lead does not return", term)
		}
	}}
}

// parks waits until a dispatcher leaves n records as they are.
func (r reign) parks(t *testing.T, n int) {
	t.Helper()
	natslab.Eventually(t, fmt.Sprint(n, " records are parked"), func(context.Context) error {
		if s := r.Stats(); s.Parked != n {
			return fmt.Errorf("%+v", s) //nolint:err113 // for the test's log
		}
		return nil
	})
}

// A submitter may write any record, and so spoil any task. It must not stop the
// group.
func TestNoRecordOfASubmitterStopsALeader(t *testing.T) {
	t.Parallel()
	const queued, assigned = `{"state":"queued","timeout":1000000000,"max_attempts":3`, `{"state":"assigned","timeout":1000000000,"max_attempts":3`
	long := strings.Repeat("x", tasks.MaxName+1)
	for name, records := range map[string]map[string]string{
		"failures": {
			"failures": `{"state":"queued","timeout":60000000000,"max_attempts":9223372036854775807,"failures":9223372036854775807}`,
			"negative": queued + `,"failures":-1}`,
		},
		"terms": {"term": queued + `,"term":18446744073709551615}`, "plausible": queued + `,"term":9007199254740991}`},
		"others": {
			"none": `{}`, "text": `hello`, "state": `{"state":"begun","timeout":1,"max_attempts":1}`,
			"timeout": `{"state":"queued","timeout":-1,"max_attempts":1}`, "endless": `{"state":"queued","timeout":9223372036854775807,"max_attempts":1}`,
			"backoff": queued + `,"backoff":-1}`, "attempts": `{"state":"queued","timeout":1,"max_attempts":-1}`, "huge": queued + `,"attempt":9223372036854775807}`,
			"worker": assigned + `,"attempt":1,"worker":"w.h","run":"1"}`, "nobody": assigned + `,"attempt":1}`, "number": queued + `,"attempt":1e99}`,
			"label": queued + `,"to":{"label":"` + long + `"}}`, "key": queued + `,"to":{"key":"` + long + `"}}`,
			"payload": queued + `,"payload":"` + strings.Repeat("AAAA", 100_000) + `"}`,
			// It can be read, and not written again: each write would fail.
			"zone": queued + `,"submitted":"2026-01-01T00:00:00+24:00"}`,
			"a*b":  queued + `}`, strings.Repeat("n", tasks.MaxName+1): queued + `}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newRightsLab(t)
			client, candidate := l.connect("client"), l.connect("candidate")
			for id, record := range records {
				if _, err := client.RequestWithContext(natslab.Within(t), "$KV.work.t.g."+id, []byte(record)); err != nil {
					t.Fatal(err)
				}
			}
			work(t, l.connect("worker"), "w", echo)
			b := l.open(candidate)
			for term := range uint64(2) {
				d := leadLogging(t, b, candidate, term+1)
				honest := fmt.Sprint("honest", term)
				submit(t, l.open(client), tasks.Spec{ID: honest})
				finished(t, b, honest)
				for id := range records {
					d.said.await(t, "task="+id+" ")
				}
				d.parks(t, len(records))
				d.end()
			}
			stream, err := natslab.JetStream(t, candidate).Stream(natslab.Within(t), "KV_work")
			if err != nil {
				t.Fatal(err)
			}
			for id, record := range records {
				m, err := stream.GetLastMsgForSubject(natslab.Within(t), "$KV.work.t.g."+id)
				if err != nil || string(m.Data) != record {
					t.Errorf("%s has changed: %+v, %v", id, m, err)
				}
			}
		})
	}
}

// All workers of a group publish on one subject, so each may speak for any
// other.
func TestNoNumberOfAWorkerStopsALeader(t *testing.T) {
	t.Parallel()
	l := newRightsLab(t)
	candidate, worker := l.connect("candidate"), l.connect("worker")
	b := l.open(candidate)
	d := leadLogging(t, b, candidate, 1)
	work(t, worker, "w", echo)
	submit(t, b, tasks.Spec{ID: "before"})
	finished(t, b, "before")
	labels := `"` + strings.Repeat(`l","`, tasks.MaxCapacity) + `l"`
	messages := map[string]string{
		"seen": `"run":"1","seen":18446744073709551615`, "plausible": `"run":"1","seen":9007199254740991,"seen_token":"x"`,
		"negative": `"run":"1","presence":{"capacity":-9223372036854775808,"lease":1}`, "capacity": `"run":"1","presence":{"capacity":9223372036854775807,"lease":1}`,
		"lease": `"run":"1","presence":{"capacity":1,"lease":-1}`, "labels": `"run":"1","presence":{"capacity":1,"lease":1,"labels":[` + labels + `]}`,
		"held": `"run":"1","presence":{"capacity":1,"lease":1,"held":[{"id":"a.b","a":1}]}`, "report": `"run":"1","reports":[{"id":"x","a":-1}]`,
		"refused": `"run":"1","refused":[{"id":"x","a":1,"why":"` + strings.Repeat("y", 1000) + `"}]`, "norun": `"run":""`,
	}
	for name, m := range messages {
		if err := worker.Publish("leader-tasks.up.g", []byte(`{"worker":"`+name+`",`+m+`}`)); err != nil {
			t.Fatal(err)
		}
	}
	for name := range messages {
		d.said.await(t, "worker="+name)
	}
	submit(t, b, tasks.Spec{ID: "after"})
	finished(t, b, "after")
	d.end()
	d = leadLogging(t, b, candidate, 2)
	submit(t, b, tasks.Spec{ID: "later"})
	finished(t, b, "later")
	d.end()
}

// A caller must not wait for a task that no leader hands out.
func TestReadersOfAnInvalidRecordGetErrInvalid(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{})
	kv, err := natslab.JetStream(t, nc).KeyValue(natslab.Within(t), "work")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(natslab.Within(t), "t.g.x", `{"state":"queued","timeout":1000000000,"max_attempts":0}`); err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func() error{
		"look":   func() error { _, err := tasks.Look(natslab.Within(t), b, "x"); return err },
		"wait":   func() error { _, err := tasks.Wait(natslab.Within(t), b, "x"); return err },
		"cancel": func() error { _, err := tasks.Cancel(natslab.Within(t), b, "x", "no"); return err },
		"submit": func() error { _, err := tasks.Submit(natslab.Within(t), b, tasks.Spec{ID: "x"}); return err },
	} {
		if err := ask(); !errors.Is(err, tasks.ErrInvalid) || !strings.Contains(err.Error(), "max_attempts 0") {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := leadLogging(t, b, nc, 1)
	work(t, nc, "w", echo)
	d.parks(t, 1)
	// A person repairs it.
	if _, err := kv.PutString(natslab.Within(t), "t.g.x", `{"state":"queued","timeout":60000000000,"max_attempts":9}`); err != nil {
		t.Fatal(err)
	}
	finished(t, b, "x")
	d.parks(t, 0)
	d.end()
}

func TestRecordThatIsSpoiledWhileItsTaskRunsIsParked(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	b := bucket(t, nc, tasks.BucketConfig{})
	kv, err := natslab.JetStream(t, nc).KeyValue(natslab.Within(t), "work")
	if err != nil {
		t.Fatal(err)
	}
	d := leadLogging(t, b, nc, 1)
	begun, ended := make(chan struct{}, 100), make(chan error, 100)
	work(t, nc, "w", func(ctx context.Context, _ tasks.Task) ([]byte, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, nil
	})
	submit(t, b, tasks.Spec{ID: "x"})
	<-begun
	if _, err := kv.PutString(natslab.Within(t), "t.g.x", "spoiled"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, tasks.ErrRevoked) {
		t.Errorf("the handler's context ended for %v", err)
	}
	d.parks(t, 1)
	d.end()
}

// A watch does not decode records that state the leader's term, and a submitter
// may state it.
func TestTaskThatClaimsToBeOfTheLeadersTermIsDone(t *testing.T) {
	t.Parallel()
	l := newRightsLab(t)
	client, candidate := l.connect("client"), l.connect("candidate")
	b := l.open(candidate)
	d := leadLogging(t, b, candidate, 7)
	work(t, l.connect("worker"), "w", echo)
	submit(t, b, tasks.Spec{ID: "before"})
	finished(t, b, "before")
	m := nats.NewMsg("$KV.work.t.g.x")
	m.Header.Set("Leader-Tasks-Term", "7")
	m.Data = []byte(`{"state":"queued","timeout":60000000000,"max_attempts":9}`)
	if _, err := client.RequestMsgWithContext(natslab.Within(t), m); err != nil {
		t.Fatal(err)
	}
	finished(t, b, "x")
	d.end()
}

// A message that rolls up a stream removes all other messages. Buckets that
// other tools make for keys and values allow rollups.
func TestSubmitterCannotRemoveTheTasksOfOthersAtOnce(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	natslab.KV(t, nc, jetstream.KeyValueConfig{Bucket: "changed"})
	for _, name := range []string{"made", "changed"} {
		b := bucket(t, nc, tasks.BucketConfig{Bucket: name})
		submit(t, b, tasks.Spec{ID: "x"})
		m := nats.NewMsg("$KV." + name + ".t.g.y")
		m.Header.Set("Nats-Rollup", "all")
		if answer, err := nc.RequestMsgWithContext(natslab.Within(t), m); err != nil || !bytes.Contains(answer.Data, []byte("rollup")) {
			t.Errorf("%s: %s, %v", name, answer.Data, err)
		}
		if _, err := tasks.Look(natslab.Within(t), b, "x"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
