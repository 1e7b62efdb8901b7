package doctor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app/apptest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/bucket"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/rights"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestVersionsHaveTheirKnownFaults(t *testing.T) {
	for text, want := range map[string][]finding.Status{
		"2.9.25":      {finding.Fail, finding.Warn},
		"2.10.29":     {finding.Warn},
		"2.11.14":     {finding.Warn},
		"2.11.15":     {finding.OK},
		"2.11.16":     {finding.OK},
		"2.12.0-RC.1": {finding.Warn, finding.Warn},
		"2.12.1":      {finding.Warn, finding.Warn},
		"2.12.2":      {finding.Warn},
		"2.12.5":      {finding.Warn},
		"2.12.6-RC.1": {finding.Warn},
		"2.12.6":      {finding.OK},
		"2.15.2":      {finding.OK},
		"3.0.0":       {finding.OK},
		"dev":         {finding.Info},
	} {
		var l finding.List
		judgeVersion(&l, text)
		var got []finding.Status
		for _, f := range l {
			got = append(got, f.Status)
			if f.Status != finding.OK && f.Fix == "" {
				t.Errorf("%s: nothing to do about %q", text, f.Text)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func examinationOf(c Command) *examination {
	return &examination{cmd: c, scope: rights.Scope{Bucket: "b", Group: "g"}}
}

func TestRoundTripsAreHeldAgainstTheLease(t *testing.T) {
	for most, want := range map[time.Duration]finding.Status{
		time.Millisecond: finding.OK, 500 * time.Millisecond: finding.OK, 501 * time.Millisecond: finding.Warn,
		1699 * time.Millisecond: finding.Warn, 1700 * time.Millisecond: finding.Fail,
	} {
		e := examinationOf(Command{TTL: 3 * time.Second, Heartbeat: time.Second})
		e.judgeTrips("trips", time.Millisecond, most)
		if got := e.findings[0].Status; got != want {
			t.Errorf("%v: %s, want %s", most, got, want)
		}
	}
}

func TestClocksMayDifferByWhatTheRequestTook(t *testing.T) {
	sent := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for off, want := range map[time.Duration]finding.Status{
		0: finding.OK, time.Second: finding.OK, -time.Second: finding.OK, 3 * time.Second: finding.Warn, -3 * time.Second: finding.Warn,
	} {
		e := examinationOf(Command{})
		i := &bucket.Inspection{Sent: sent, Received: sent.Add(time.Second)}
		i.Info = &jetstream.StreamInfo{TimeStamp: sent.Add(500 * time.Millisecond).Add(off)}
		e.clock(i)
		if got := e.findings[0].Status; got != want {
			t.Errorf("%v: %s, want %s", off, got, want)
		}
	}
}

func TestMonitoringPortRevealsHowOftenTheServerSyncs(t *testing.T) {
	for body, want := range map[string]finding.Status{
		`{"config":{"sync_interval":120000000000,"sync_always":true}}`: finding.OK,
		`{"config":{"sync_interval":120000000000}}`:                    finding.Warn,
		`no JSON`:       finding.Info,
		`{"config":{}}`: finding.Info, // of a server that does not report it yet
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/jsz" {
				_, _ = w.Write([]byte(body))
			}
		}))
		c := Command{Monitor: srv.URL + "/"}
		c.Timeout = time.Minute
		e := examinationOf(c)
		e.sync(t.Context(), nil)
		if got := e.findings[0].Status; got != want {
			t.Errorf("%s: %+v, want %s", body, e.findings[0], want)
		}
		srv.Close()
	}
}

// The syncing of a server is irrelevant to a bucket whose acknowledgements do
// not wait for a file.
func TestSyncingIsNotReportedForABucketThatDoesNotWaitForAFile(t *testing.T) {
	for name, c := range map[string]jetstream.StreamConfig{
		"memory":       {Storage: jetstream.MemoryStorage},
		"asynchronous": {PersistMode: jetstream.AsyncPersistMode},
	} {
		e := examinationOf(Command{})
		e.sync(t.Context(), &jetstream.StreamInfo{Config: c})
		if len(e.findings) > 0 {
			t.Errorf("%s: %+v", name, e.findings)
		}
	}
}

// The server that is asked may be another one of the cluster than those that
// keep the bucket. It answers all the same.
func TestServerWithoutJetStreamRevealsNothingOfSyncing(t *testing.T) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, HTTPHost: "127.0.0.1", HTTPPort: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not serve")
	}
	c := Command{Monitor: "http://" + srv.MonitorAddr().String()}
	c.Timeout = time.Minute
	e := examinationOf(c)
	e.sync(t.Context(), nil)
	if f := e.findings[0]; f.Status != finding.Info || !strings.Contains(f.Text, "has no JetStream") {
		t.Errorf("%+v", f)
	}
}

// A script picks findings by their check. The tests of the whole command
// compare the findings on NATS with the help.
func TestTheHelpNamesTheChecksOfAStoreElsewhere(t *testing.T) {
	_, listed, _ := strings.Cut(Command{}.Help(), "elsewhere than on NATS ")
	listed, _, _ = strings.Cut(listed, ".")
	c := Command{Target: apptest.Elsewhere(memstore.New(), time.Minute), Group: "reports", TTL: 3 * time.Second, Rounds: 1, Role: []string{"viewer"}}
	s, err := c.Open("doctor")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e := newExamination(c, s)
	if err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range e.findings {
		names = append(names, f.Check)
		if strings.Contains(f.Text, "roll call") { // which only NATS has
			t.Errorf("%+v", f)
		}
	}
	if names = slices.Compact(names); listed != strings.Join(names[:len(names)-1], ", ")+" and "+names[len(names)-1] {
		t.Errorf("the help names %q, and what is found are %q", listed, names)
	}
}

// Somebody may write whatever key they like.
func TestKeyBesideGroupsHidesNoPausedGroup(t *testing.T) {
	st := memstore.New()
	st.Put(inspect.ControlKey(inspect.ControlKey("x")), []byte("what is this"))
	control, err := leader.NewControlWithStore(st, "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	if _, err := control.File(t.Context(), leader.Request{Op: leader.OpPause, Group: "reports"}); err != nil {
		t.Fatal(err)
	}
	e := examinationOf(Command{Target: app.Target{Timeout: time.Minute}})
	e.paused(t.Context(), st)
	if len(e.findings) != 1 || e.findings[0].Status != finding.Warn {
		t.Errorf("%+v", e.findings)
	}
}
