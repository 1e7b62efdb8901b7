package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// startServing starts a command that serves HTTP and returns the address that
// it prints.
func startServing(t *testing.T, env []string, args ...string) (address string, stop func() (code int)) {
	t.Helper()
	c := begin(t, t.Output(), env, args...)
	if !c.lines.Scan() {
		t.Fatalf("%v said nothing: %v", args, c.lines.Err())
	}
	return strings.TrimSpace(c.lines.Text()), func() int {
		c.signal(syscall.SIGINT)
		return c.wait()
	}
}

// What it cannot follow it says as every command does, in the words of flags.
func TestExporterTellsWhatItCannotFollowInTheWordsOfTheCommandLine(t *testing.T) {
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

// get returns the body of a page.
func get(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", url, resp.Status, err, body)
	}
	return string(body)
}

// awaitPage reads a page until it fits.
func awaitPage(t *testing.T, url, what string, fits func(page string) bool) string {
	t.Helper()
	pause := time.NewTicker(30 * time.Millisecond)
	defer pause.Stop()
	page := ""
	for end := time.Now().Add(patience); time.Now().Before(end); <-pause.C {
		if page = get(t, url); fits(page) {
			return page
		}
	}
	t.Fatalf("%s did not come true in:\n%s", what, page)
	return ""
}

// has returns a function that reports whether a page has a line that begins so.
func has(starts ...string) func(string) bool {
	return func(page string) bool {
		for _, start := range starts {
			if !strings.Contains("\n"+page, "\n"+start) {
				return false
			}
		}
		return true
	}
}

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

func TestExporterAndDashShowAGroupThatIsPausedBeforeItsFirstLeader(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.run(0, "pause", "early", "--yes", "--why", "not yet")
	env := []string{"NATS_URL=" + l.url}
	const id = `{bucket="leaders",role="early"} `
	url, _ := startServing(t, env, "exporter", "--http", "127.0.0.1:0")
	awaitPage(t, url, "the pause", has(
		`election_group_paused`+id+"1", `election_group_leader_known`+id+"0",
		`election_group_vacant{bucket="leaders",reason="absent",role="early"} 1`,
	))
	base, _ := startServing(t, env, "dash", "--http", "127.0.0.1:0")
	next := listen(t, base)
	n := next(func(n news) bool { return len(n.Groups) > 0 })
	if g := n.Groups[0]; g.Group != "early" || g.Paused == nil || g.Paused.Why != "not yet" || g.Leader != "" {
		t.Errorf("%+v", g)
	}
	l.run(0, "resume", "early", "--yes", "--no-wait")
	if n := next(func(n news) bool { return len(n.Gone) > 0 }); n.Gone[0] != "early" {
		t.Errorf("gone: %q", n.Gone)
	}
	awaitPage(t, url, "its end", func(page string) bool { return !strings.Contains(page, `role="early"`) })
}

// The rules are judged by Prometheus itself in test/labs/metrics.
func TestAlertsOfTheExporterNameOnlyWhatItShows(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(repository("deploy/exporter-alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`election_(?:group|observer)_\w+`).FindAllString(string(rules), -1)
	if len(names) < 10 {
		t.Fatalf("the rules name %q", names)
	}
	l := newReadLab(t)
	l.stand("reports", "worker-1")
	url, _ := startServing(t, []string{"NATS_URL=" + l.url}, "exporter", "--http", "127.0.0.1:0")
	page := awaitPage(t, url, "the leader", has(`election_group_leader_known{bucket="leaders",role="reports"} 1`))
	for _, name := range names {
		labels := `{bucket="leaders"`
		if strings.HasPrefix(name, "election_group_") {
			labels += `,role="reports"`
		}
		if !has(name + labels + `} `)(page) {
			t.Errorf("the rules name %s, which is not shown with the labels %s}:\n%s", name, labels, page)
		}
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
		t.Errorf("a group that no candidate can stand for is shown:\n%s", page)
	}
}

// until tries again what a server may refuse for a moment: it is still clearing
// away what it has said is gone.
func (l *readLab) until(what string, try func() error) {
	l.t.Helper()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(patience); ; <-pause.C {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			l.t.Fatalf("never: %s: %v", what, err)
		}
	}
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
	// The bucket is made anew, with one of them.
	if err := l.js.DeleteStream(l.within(), "KV_leaders"); err != nil {
		t.Fatal(err)
	}
	l.until("a bucket is made anew", func() error {
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

// serveUsers starts a server for the users, and for admin, who may do all. It
// returns its address.
func serveUsers(t *testing.T, users ...*server.User) (url string) {
	t.Helper()
	return devtest.Start(t, devtest.Users(append(users, devtest.Admin())...)).URL()
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

func TestExporterTriesItselfOut(t *testing.T) {
	t.Parallel()
	url, _ := startServing(t, nil, "exporter", "--dev", "--http", "127.0.0.1:0")
	awaitPage(t, url, "the sample elections", has(`election_group_leader_known{bucket="leaders",role="reports"} 1`))
	code, _, stderr := runProgram(t, nil, "exporter", "--http", "9464")
	if code != 2 || !strings.Contains(stderr, fmt.Sprintf("--http %q", "9464")) {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
}
