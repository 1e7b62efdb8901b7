package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/stores"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// TestCommandsWorkOnAQuorum elects over three servers without a cluster, of
// which one is stopped.
func TestCommandsWorkOnAQuorum(t *testing.T) {
	t.Parallel()
	var servers []*devtest.Server
	var parts []string
	for _, name := range []string{"a", "b", "c"} {
		srv := devtest.Start(t)
		servers = append(servers, srv)
		_, js := devtest.Connect(t, srv.URL())
		if err := natsstore.EnsureBucket(within(t), js, natsstore.BucketConfig{Bucket: labBucket}); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, fmt.Sprintf("m=%s=%s/%s", name, srv.URL(), labBucket))
	}
	url := "quorum://?" + strings.Join(parts, "&")
	st, err := store.Open(within(t), url, stores.Drivers()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: "g", InstanceID: "one", TTL: time.Minute, HeartbeatInterval: time.Second, DeleteOnStop: true, AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })

	run := func(want int, args ...string) string {
		t.Helper()
		code, out, stderr := runProgram(t, nil, append(args, "--store", url, "--timeout", "30s")...)
		if code != want {
			t.Fatalf("leader %s: exit status %d, want %d: %s%s", strings.Join(args, " "), code, want, out, stderr)
		}
		return out
	}
	run(0, "wait", "g")
	if out := run(0, "ls", "-o", "name"); out != "g\n" {
		t.Errorf("leader ls: %q", out)
	}
	servers[1].Stop()
	var d struct {
		Leader  string
		Members []struct {
			Name    string
			Version uint64
			Memory  bool
			State   string
			Error   string
		}
	}
	if err := json.Unmarshal([]byte(run(0, "get", "g", "-o", "json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.Leader != "one" || len(d.Members) != 3 || !d.Members[0].Memory || d.Members[0].Version == 0 || d.Members[1].Error == "" || d.Members[0].State != "up to date" || d.Members[1].State != "does not answer" {
		t.Errorf("leader get: %+v", d)
	}
	if out := run(0, "get", "g"); !strings.Contains(out, "MEMBER") {
		t.Errorf("leader get shows no members:\n%s", out)
	}
	var x examination
	if err := json.Unmarshal([]byte(run(0, "doctor", "--group", "g", "--ttl", "10m", "-o", "json")), &x); err != nil {
		t.Fatal(err)
	}
	warned := ""
	for _, f := range x.Findings {
		if f.Check == "members" && f.Status == finding.Warn {
			warned += f.Text
		}
	}
	if !strings.Contains(warned, `member "b": does not answer: `) || strings.Contains(warned, `"a"`) {
		t.Errorf("leader doctor warns of the members: %q", warned)
	}
	exporter, _ := startServing(t, nil, "exporter", "--http", "127.0.0.1:0", "--store", url, "--timeout", "30s")
	labels := `{bucket="` + url + `",member=`
	shown := awaitPage(t, exporter, "the members", has(
		`election_group_member_up`+labels+`"a",role="g"} 1`, `election_group_member_lag`+labels+`"a",role="g"} `, `election_group_member_memory`+labels+`"a",role="g"} 1`,
		`election_group_member_up`+labels+`"b",role="g"} 0`,
	))
	for _, name := range ruled(t) {
		if strings.HasPrefix(name, ofMembers) && !has(name+labels+`"a",role="g"} `)(shown) {
			t.Errorf("the rules name %s, which is not shown with the labels %s…:\n%s", name, labels, shown)
		}
	}
	page, _ := startServing(t, nil, "dash", "--http", "127.0.0.1:0", "--store", url, "--timeout", "30s")
	if _, _, body := (visit{http.MethodGet, "/api/candidates?group=g", "", nil}).ask(t, page); !strings.Contains(body, `"memory":true,"state":"up to date"`) ||
		!strings.Contains(body, `{"name":"b","version":0,"lag":0,"memory":false,"state":"does not answer","error":"`) {
		t.Errorf("leader dash shows the members: %s", body)
	}
	servers[1].Run() // the first value of a key needs all members
	// Not in this process: leader run ends all that its process has started, and
	// other tests start workers.
	said, err := command(t, nil, "run", "h", "--store", url, "--ttl", "10s", "--timeout", "60s", "--", "true").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "leading h in term") {
		t.Errorf("leader run: %v: %s", err, said)
	}
}
