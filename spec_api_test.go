package leader_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log" //nolint:depguard // slog.SetDefault writes through it, and it is to be put back
	"log/slog"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The specified interface, as programs that were written to it use it.
type specified interface {
	Start(ctx context.Context) error
	Stop() error
	StopWithContext(ctx context.Context, opts leader.StopOptions) error
	IsLeader() bool
	LeaderID() string
	Token() string
	Status() leader.ElectionStatus
	OnPromote(f func(ctx context.Context, token string))
	OnDemote(f func())
}

func TestSpecifiedInterfaceIsImplemented(t *testing.T) {
	type create func(*nats.Conn, leader.ElectionConfig) (leader.Election, error)
	e, err := create(leader.NewElection)(new(nats.Conn), leader.ElectionConfig{
		Bucket: "leaders", Group: "g", InstanceID: "a", TTL: 5 * time.Second, HeartbeatInterval: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	var s specified = e
	if s.IsLeader() || s.LeaderID() != "" || s.Token() != "" {
		t.Errorf("before its start: %+v", s.Status())
	}
}

func TestSpecifiedFieldsHaveTheirNamesAndTypes(t *testing.T) {
	for _, c := range []struct {
		of     any
		fields map[string]string
	}{
		{leader.ElectionConfig{}, map[string]string{
			"Bucket": "string", "Group": "string", "InstanceID": "string",
			"TTL": "time.Duration", "HeartbeatInterval": "time.Duration",
			"Priority": "int", "Logger": "*slog.Logger",
			"ConnectionTimeout": "time.Duration", "DisconnectGracePeriod": "time.Duration",
			"Fencing": "leader.FencingConfig", "HealthChecker": "leader.HealthChecker", "RetryConfig": "leader.RetryConfig",
			"BucketAutoCreate": "bool", "DeleteOnStop": "bool", "AllowPriorityTakeover": "bool",
		}},
		{leader.FencingConfig{}, map[string]string{
			"ValidationInterval": "time.Duration", "ValidateOnCriticalOps": "bool", "CacheToken": "bool",
		}},
		{leader.RetryConfig{}, map[string]string{
			"MaxAttempts": "int", "InitialBackoff": "time.Duration", "MaxBackoff": "time.Duration",
			"BackoffMultiplier": "float64", "Jitter": "float64",
		}},
		{leader.StopOptions{}, map[string]string{
			"DeleteKey": "bool", "WaitForDemote": "bool", "Timeout": "time.Duration",
		}},
		{leader.ElectionStatus{}, map[string]string{
			"State": "string", "IsLeader": "bool", "LeaderID": "string", "Token": "string",
			"LastHeartbeat": "time.Time", "LastTransition": "time.Time", "Revision": "uint64", "ConnectionStatus": "string",
		}},
	} {
		typ := reflect.TypeOf(c.of)
		for name, want := range c.fields {
			if f, ok := typ.FieldByName(name); !ok || f.Type.String() != want {
				t.Errorf("%v.%s is %v, want %s", typ, name, f.Type, want)
			}
		}
	}
}

func TestStatesAndConnectionsHaveTheSpecifiedNames(t *testing.T) {
	for got, want := range map[string]string{
		leader.StateInit: "INIT", leader.StateCandidate: "CANDIDATE", leader.StateLeader: "LEADER",
		leader.StateFollower: "FOLLOWER", leader.StateDemoted: "DEMOTED", leader.StateStopped: "STOPPED",
		store.Connected.String(): "CONNECTED", store.Disconnected.String(): "DISCONNECTED", store.Closed.String(): "CLOSED",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestRequiredFieldsAreRequired(t *testing.T) {
	_, err := leader.NewElection(new(nats.Conn), leader.ElectionConfig{})
	for _, field := range []string{"Bucket", "Group", "InstanceID", "TTL", "HeartbeatInterval"} {
		if !slices.Contains(fields(err), field) {
			t.Errorf("no fault of %s in\n%v", field, err)
		}
	}
}

// Candidates in trouble, of which one has no Logger, write nothing anywhere.
func TestWithoutALoggerNothingIsWritten(t *testing.T) {
	var out bytes.Buffer
	was, flags := slog.Default(), log.Flags()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer func() {
		slog.SetDefault(was)
		log.SetOutput(os.Stderr)
		log.SetFlags(flags)
	}()
	stderr := captured(t, func() {
		synctest.Test(t, func(t *testing.T) {
			f := network(t, nil)
			a := candidate(t, f.Client("a"), config("a"))
			a.OnDemote(func() { panic("boom") })
			started(t, a)
			f.BlackHole("a")
			time.Sleep(time.Minute)
			f.Heal("a")
			time.Sleep(time.Minute)
			mustLead(t, a)
		})
	})
	if out.Len() > 0 || stderr != "" {
		t.Errorf("written:\n%s%s", out.String(), stderr)
	}
}

// captured returns what f writes to the standard output and the standard error.
func captured(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string)
	go func() {
		b, _ := io.ReadAll(r) // ends with the pipe
		text <- string(b)
	}()
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = w, w
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	f()
	_ = w.Close()
	return <-text
}

func TestTokenIsEmptyUnlessTheCandidateLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a, b := start(t, f.Client("a"), config("a")), start(t, f.Client("b"), config("b"))
		mustLead(t, a, b)
		if a.Token() == "" || a.Token() != a.Status().Token || b.Token() != "" || b.Status().Token != "" {
			t.Errorf("tokens %q and %q", a.Token(), b.Token())
		}
		f.BlackHole("a")
		time.Sleep(trust)
		if a.Token() != "" || a.Status().Token != "" {
			t.Error("the token outlives the trust")
		}
		f.Heal("a")
		halt(t, a, b)
		if a.Token() != "" || b.Token() != "" {
			t.Error("a token after the end")
		}
	})
}

// raw returns the record as people's tools show it.
func raw(t *testing.T, st store.Store) map[string]any {
	t.Helper()
	e, err := st.Get(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(e.Value))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		t.Fatalf("%s: %v", e.Value, err)
	}
	return fields
}

func TestRecordHasTheSpecifiedFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("instance-1234")
		cfg.Priority, cfg.Meta = 10, map[string]string{"hostname": "node-01", "region": "eu-west-1"}
		a := start(t, st, cfg)
		mustLead(t, a)
		r := raw(t, st)
		if r["id"] != "instance-1234" || fmt.Sprint(r["priority"]) != "10" || fmt.Sprint(r["meta"]) != "map[hostname:node-01 region:eu-west-1]" {
			t.Errorf("%v", r)
		}
		if token := fmt.Sprint(r["token"]); !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(token) || token != a.Token() {
			t.Errorf("the token is %q, and the leader's %q", token, a.Token())
		}
	})
}

// A time of day would be compared with another machine's sooner or later, if it
// were not for people alone: TestTimesOfDayInTheRecordDecideNothing.
func TestRecordHoldsNoTimeOfDayButTwoForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("a")
		cfg.Priority = 3
		a := start(t, st, cfg)
		time.Sleep(10*heartbeat + 1)
		mustLead(t, a)
		years := time.Now().Unix() / 2 // any unit of time since any usual origin is more
		random, people := []string{"nonce"}, []string{"acquired", "renewed"}
		for name, value := range raw(t, st) {
			if n, ok := value.(json.Number); ok && !slices.Contains(random, name) && !slices.Contains(people, name) {
				if v, err := n.Float64(); err != nil || v > float64(years) {
					t.Errorf("%s is %v", name, value)
				}
			}
			if s, ok := value.(string); ok && strings.Count(s, ":") > 1 {
				t.Errorf("%s is %q", name, s)
			}
		}
		known := []string{"id", "token", "ttl", "drift", "term", "renewal", "priority", "standings", "transitions"}
		known = slices.Concat(known, random, people)
		for _, name := range slices.Sorted(maps.Keys(raw(t, st))) {
			if !slices.Contains(known, name) {
				t.Errorf("the field %s is new: is it a time of day?", name)
			}
		}
	})
}

// The bubble of synctest fails a test that leaves a goroutine behind: here one
// that did everything.
func TestStopLeavesNoGoroutineBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("a")
		cfg.HealthChecker, cfg.Fencing.ValidationInterval = &health{}, heartbeat
		a := start(t, st, cfg)
		b := start(t, st, config("b"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range b.Observe(t.Context()) {
			}
		}()
		time.Sleep(time.Minute)
		put(t, st, record.ControlKey("g"), record.Request{Op: record.OpStepDown, Term: a.Term().Number})
		mustLead(t, b, a)
		halt(t, a, b)
		<-done
		synctest.Wait()
	})
}

// A busyStore is a store whose writes take until a while after their context
// ends.
type busyStore struct {
	*memstore.Store
	write func(context.Context)
}

func (s *busyStore) CompareAndSwap(ctx context.Context, _ store.Write) (uint64, error) {
	s.write(ctx)
	return 0, store.ErrUnknown
}

// A goroutine that is told to end may be in the middle of something: Stop
// returns after that, and not before.
func TestStopReturnsAfterTheLastActOfItsGoroutines(t *testing.T) {
	var running atomic.Int32
	act := func(ctx context.Context) bool {
		running.Add(1)
		defer running.Add(-1)
		<-ctx.Done()
		time.Sleep(heartbeat / 10)
		return true
	}
	for name, begin := range map[string]func(t *testing.T) leader.Election{
		"a write": func(t *testing.T) leader.Election {
			return start(t, &busyStore{memstore.New(), func(ctx context.Context) { act(ctx) }}, config("a"))
		},
		"a health check": func(t *testing.T) leader.Election {
			h, cfg := &health{}, config("a")
			h.set(act)
			cfg.HealthChecker = h
			return start(t, memstore.New(), cfg)
		},
		"a callback": func(t *testing.T) leader.Election {
			e := candidate(t, memstore.New(), config("a"))
			e.OnLeaderChange(func(leader.LeaderInfo) {
				running.Add(1)
				defer running.Add(-1)
				time.Sleep(time.Second)
			})
			return started(t, e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := begin(t)
				for running.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
				if err := e.Stop(); err != nil {
					t.Error(err)
				}
				if n := running.Load(); n != 0 {
					t.Errorf("%d are running after Stop", n)
				}
			})
		})
	}
}

// No store of the contract can write without an expected revision.
func TestTheContractOfStoresHasNoUnconditionalWrite(t *testing.T) {
	var methods []string
	for m := range reflect.TypeFor[store.Store]().Methods() {
		methods = append(methods, m.Name)
	}
	if !slices.Equal(methods, []string{"CompareAndSwap", "Get"}) {
		t.Errorf("methods %v", methods)
	}
	if _, ok := reflect.TypeFor[store.Write]().FieldByName("Expected"); !ok {
		t.Error("a write expects nothing")
	}
}
