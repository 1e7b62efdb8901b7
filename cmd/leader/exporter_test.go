package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/seed-ff2cb582/leader/store/natsstore"
)

func TestExporterShowsAllGroupsWithoutBeingACandidate(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	first := l.stand("reports", "worker-1")
	l.stand("reports", "worker-2")
	url, stop := startServing(t, []string{"NATS_URL=" + l.url}, "exporter", "--http", "127.0.0.1:0")
	const id = `{bucket="leaders",role="reports"} `
	page := awaitPage(t, url, "the first leader", has(
		`election_group_leader_known`+id+"1", `election_group_paused`+id+"0", `election_group_term`+id, `election_group_malformed_records_total`+id+"0",
		`election_group_last_renewal_age_seconds`+id, `election_group_lease_remaining_seconds`+id,
		`election_group_leader_info{address="worker-1:80",bucket="leaders",leader="worker-1",role="reports",version="1.2.3"} 1`,
		`election_observer_connected{bucket="leaders"} 1`, `election_observer_complete{bucket="leaders"} 1`,
		`election_observer_groups{bucket="leaders"} 1`, `go_goroutines `,
	))
	if strings.Contains(page, first.Token()) {
		t.Error("a token is shown")
	}
	if problems, err := promlint.New(strings.NewReader(page)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}

	if err := first.Transfer(l.within(), "worker-2"); err != nil {
		t.Fatal(err)
	}
	page = awaitPage(t, url, "the second leader", has(
		`election_group_leader_info{address="worker-2:80",bucket="leaders",leader="worker-2",role="reports",version="1.2.3"} 1`,
		`election_group_state_age_seconds`+id,
	))
	if strings.Contains(page, `leader="worker-1"`) || !strings.Contains(page, `election_group_leader_changes_total{bucket="leaders",reason=`) {
		t.Errorf("the former leader is still shown, or the change is not counted:\n%s", page)
	}

	if err := first.Pause(l.within(), "maintenance"); err != nil {
		t.Fatal(err)
	}
	awaitPage(t, url, "the pause", has(
		`election_group_leader_known`+id+"0", `election_group_paused`+id+"1", `election_group_lease_remaining_seconds`+id+"0",
		`election_group_vacant{bucket="leaders",reason="paused",role="reports"} 1`,
	))
	if code := stop(); code != 0 {
		t.Errorf("exit status %d after an interrupt", code)
	}
}

func TestExporterNeedsAnObserversRightsOnly(t *testing.T) {
	t.Parallel()
	observer := &server.User{Username: "observer", Password: "observer", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			"$JS.API.STREAM.INFO.KV_leaders", "$JS.API.DIRECT.GET.KV_leaders", "$JS.API.DIRECT.GET.KV_leaders.>",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{"leader.leaders.>", "_INBOX_observer.>"}},
	}}
	url := serveUsers(t, observer)
	l := enter(t, url, nats.UserInfo("admin", "admin"))
	e := l.stand("reports", "worker-1")
	env := []string{"NATS_URL=" + l.url, "NATS_USER=observer", "NATS_PASSWORD=observer", "NATS_INBOX_PREFIX=_INBOX_observer"}
	url, _ = startServing(t, env, "exporter", "--http", "127.0.0.1:0")
	awaitPage(t, url, "the leader", has(`election_group_leader_known{bucket="leaders",role="reports"} 1`, `election_observer_complete{bucket="leaders"} 1`))
	if err := e.Pause(l.within(), "maintenance"); err != nil {
		t.Fatal(err)
	}
	awaitPage(t, url, "the pause", has(`election_group_paused{bucket="leaders",role="reports"} 1`))
}

func TestExporterWaitsForItsBucket(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	url, _ := startServing(t, []string{"NATS_URL=" + l.url}, "exporter", "--http", "127.0.0.1:0", "--bucket", "later")
	awaitPage(t, url, "its absence", has(`election_observer_complete{bucket="later"} 0`, `election_observer_failures_total{bucket="later"} `))
	if err := natsstore.EnsureBucket(l.within(), l.js, natsstore.BucketConfig{Bucket: "later"}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.js.Publish(l.within(), "$KV.later.reports", []byte(`{"id":"w","token":"t","ttl":60000}`)); err != nil {
		t.Fatal(err)
	}
	awaitPage(t, url, "the bucket", has(`election_observer_complete{bucket="later"} 1`, `election_group_paused{bucket="later",role="reports"} 0`))
}

// They may be started before it, or a load balancer has no server yet.
func TestCommandsThatServeWaitForTheirServer(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("reports", "a")
	for _, line := range []string{"exporter --http 127.0.0.1:0", "dash --http 127.0.0.1:0", "proxy reports --listen 127.0.0.1:0", "wait reports"} {
		env := []string{"NATS_URL=nats://" + late(t, l.url)}
		if c := begin(t, t.Output(), env, append(strings.Fields(line), "--timeout", "60s")...); !c.lines.Scan() {
			t.Errorf("%s prints nothing: %v", line, c.lines.Err())
		}
	}
}

// late returns the address of a server whose first client is sent away.
func late(t *testing.T, url string) string {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for first := true; ; first = false {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			behind, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "tcp", strings.TrimPrefix(url, "nats://"))
			if first || err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(behind, client); _ = behind.Close() }()
			go func() { _, _ = io.Copy(client, behind); _ = client.Close() }()
		}
	}()
	return ln.Addr().String()
}

func TestExporterForgetsGroupsThatAreGone(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	for _, group := range []string{"stays", "goes"} {
		if _, err := l.js.Publish(l.within(), "$KV.leaders."+group, []byte(`{"id":"w","token":"t","ttl":60000}`)); err != nil {
			t.Fatal(err)
		}
	}
	url, _ := startServing(t, []string{"NATS_URL=" + l.url}, "exporter", "--http", "127.0.0.1:0")
	awaitPage(t, url, "both groups", has(`election_observer_groups{bucket="leaders"} 2`))
	// The bucket is made again, with one of them.
	if err := l.js.DeleteStream(l.within(), "KV_leaders"); err != nil {
		t.Fatal(err)
	}
	l.until("a bucket is made again", func() error {
		return natsstore.EnsureBucket(l.within(), l.js, natsstore.BucketConfig{Bucket: labBucket})
	})
	l.until("a record is stored in it", func() error {
		_, err := l.js.Publish(l.within(), "$KV.leaders.stays", []byte(`{"id":"v","token":"u","ttl":60000}`))
		return err
	})
	page := awaitPage(t, url, "the group that stays", has(
		`election_observer_groups{bucket="leaders"} 1`, `election_group_paused{bucket="leaders",role="stays"} 0`,
	))
	if strings.Contains(page, "goes") {
		t.Errorf("a group that is gone is shown:\n%s", page)
	}
}

func TestExporterBoundsWhatRecordsMayPutIntoLabels(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	long := strings.Repeat("é", 300)
	publish := func(group, record string, header nats.Header) {
		t.Helper()
		msg := &nats.Msg{Subject: "$KV.leaders." + group, Data: []byte(record), Header: header}
		if _, err := l.js.PublishMsg(l.within(), msg); err != nil {
			t.Fatal(err)
		}
	}
	publish("malformed", `{"id":`, nil)
	publish("made-up", `{"reason":"a whim"}`, nats.Header{"KV-Operation": []string{"DEL"}})
	publish("<img>", `{"id":"w","token":"t","ttl":60000}`, nil)
	url, _ := startServing(t, []string{"NATS_URL=" + l.url}, "exporter", "--http", "127.0.0.1:0")
	awaitPage(t, url, "what was there", has(`election_observer_complete{bucket="leaders"} 1`))
	publish("long", `{"id":"w","token":"t","ttl":60000,"address":"`+long+`"}`, nil)
	page := awaitPage(t, url, "the records", has(
		`election_group_leader_info{address="`+strings.Repeat("é", 64)+`",bucket="leaders",leader="w",role="long",version=""} 1`,
		`election_group_vacant{bucket="leaders",reason="other",role="made-up"} 1`,
		`election_group_vacant{bucket="leaders",reason="overwritten",role="malformed"} 1`,
		`election_group_malformed_records_total{bucket="leaders",role="malformed"} 1`,
	))
	if strings.Contains(page, "img") {
		t.Errorf("a group that no candidate can lead is shown:\n%s", page)
	}
}

func TestExporterLeavesForgottenGroupsOut(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("other", "o")
	if err := l.stand(steered, "a").Stop(); err != nil {
		t.Fatal(err)
	}
	l.run(0, "forget", steered, "-y")
	for _, args := range [][]string{nil, {"--all"}} {
		url, stop := startServing(t, []string{"NATS_URL=" + l.url}, append([]string{"exporter", "--http", "127.0.0.1:0"}, args...)...)
		page := awaitPage(t, url, "both groups", has(
			`election_observer_groups{bucket="leaders"} 2`, `election_group_leader_known{bucket="leaders",role="other"} 1`))
		const vacant = `election_group_vacant{bucket="leaders",reason="forgotten",role="reports"} 1`
		if got, want := strings.Contains(page, vacant), args != nil; got != want || strings.Contains(page, `role="reports"`) != want {
			t.Errorf("%q:\n%s", args, page)
		}
		stop()
	}
}

// ruled returns the names of metrics in the rules of the exporter.
func ruled(t *testing.T) []string {
	t.Helper()
	rules, err := os.ReadFile(repository("deploy/exporter-alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`election_(?:group|observer)_\w+`).FindAllString(string(rules), -1)
	if len(names) < 10 {
		t.Fatalf("the rules name %q", names)
	}
	return names
}

// ofMembers begins the names of the metrics that only a quorum has.
const ofMembers = "election_group_member_"

// The rules are judged by Prometheus itself in test/labs/metrics.
// TestCommandsWorkOnAQuorum looks at the metrics of members.
func TestAlertsOfTheExporterNameOnlyWhatItShows(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("reports", "worker-1")
	url, _ := startServing(t, []string{"NATS_URL=" + l.url}, "exporter", "--http", "127.0.0.1:0")
	page := awaitPage(t, url, "the leader", has(`election_group_leader_known{bucket="leaders",role="reports"} 1`))
	for _, name := range ruled(t) {
		if strings.HasPrefix(name, ofMembers) {
			continue
		}
		labels := `{bucket="leaders"`
		if strings.HasPrefix(name, "election_group_") {
			labels += `,role="reports"`
		}
		if !has(name + labels + `} `)(page) {
			t.Errorf("the rules name %s, which is not shown with the labels %s}:\n%s", name, labels, page)
		}
	}
}

// A group that it cannot follow is reported as by every command, in the words
// of flags.
func TestExporterReportsWhatItCannotFollowInTheWordsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	said, stderr := io.Pipe()
	begin(t, stderr, []string{"NATS_URL=" + l.url}, "exporter", "--http", "127.0.0.1:0", "-b", "missing")
	t.Cleanup(func() { _ = said.Close() }) // so that no write blocks
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, `leader: bucket "missing" does not exist`) || internals.MatchString(line) {
		t.Errorf("%q, %v", line, err)
	}
}

func TestExporterTriesItselfOut(t *testing.T) {
	t.Parallel()
	url, _ := startServing(t, nil, "exporter", "--dev", "--http", "127.0.0.1:0")
	awaitPage(t, url, "the sample elections", has(`election_group_leader_known{bucket="leaders",role="reports"} 1`))
}
