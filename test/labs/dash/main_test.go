package dash_test

import (
	"bufio"
	"context"
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/built"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// patience bounds every wait. A passing test never takes so long.
const patience = 60 * time.Second

// screenshots is where to put pictures of the page, for people to look at.
var screenshots = flag.String("screenshots", "", "put pictures of the page into this `directory`")

// picture is where to put the one of the README.
var picture = flag.String("picture", "", "draw the page into this `file`")

// program is the path of the built command.
var program string

// The tests are serial: each starts a Chromium, which takes all processors.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(built.Run(m, &program))
}

// A site is a leader dash, or an exporter, that runs.
type site struct {
	url string
	cmd *exec.Cmd
}

// serve starts leader dash for the bucket leaders on a server.
func serve(t *testing.T, server string, args ...string) *site {
	t.Helper()
	return launch(t, append([]string{"dash", "--server", server, "--http", "127.0.0.1:0"}, args...)...)
}

// launch starts a command that prints its address.
func launch(t *testing.T, args ...string) *site {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &site{cmd: cmd}
	t.Cleanup(s.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v printed %q: %v", args, line, err)
	}
	s.url = strings.TrimSpace(line)
	return s
}

// stop ends the program. It may be called again.
func (s *site) stop() {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
}

// bucket makes the bucket leaders on its own server.
func bucket(t *testing.T) (url string, nc *nats.Conn) {
	t.Helper()
	srv := natslab.Start(t)
	nc = natslab.Connect(t, srv.URL())
	ensure(t, nc, 1)
	return srv.URL(), nc
}

func ensure(t *testing.T, nc *nats.Conn, replicas int) {
	t.Helper()
	js := natslab.JetStream(t, nc)
	natslab.Eventually(t, "bucket made", func(ctx context.Context) error {
		return natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: "leaders", Replicas: replicas})
	})
}

// stand starts a candidate and waits until it knows the leader.
func stand(t *testing.T, nc *nats.Conn, group, id string, adapt ...func(*leader.ElectionConfig)) leader.Election {
	t.Helper()
	cfg := leader.ElectionConfig{
		Bucket: "leaders", Group: group, InstanceID: id, TTL: 10 * time.Second, HeartbeatInterval: 500 * time.Millisecond,
		DeleteOnStop: true, Address: id + ".example:8080", Hooks: rollcall.Hooks(nc), AcquireGrace: leader.GraceOff,
	}
	for _, a := range adapt {
		a(&cfg)
	}
	e, err := leader.NewElection(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() }) // the test's context has ended it
	await(t, e, func(info leader.LeaderInfo) bool { return info.ID != "" })
	return e
}

// await waits until a candidate knows of a leader that fits.
func await(t *testing.T, e leader.Election, fits func(leader.LeaderInfo) bool) leader.LeaderInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for info := range e.Observe(ctx) {
		if fits(info) {
			return info
		}
	}
	t.Fatal("it did not come to know in time of the leader that was to be")
	return leader.LeaderInfo{}
}

// put writes a record, as any client with the right to write the key can.
func put(t *testing.T, nc *nats.Conn, group, record string) {
	t.Helper()
	publish(t, nc, &nats.Msg{Subject: "$KV.leaders." + group, Data: []byte(record)})
}

// vacate writes a vacancy.
func vacate(t *testing.T, nc *nats.Conn, group, record string) {
	t.Helper()
	publish(t, nc, &nats.Msg{
		Subject: "$KV.leaders." + group, Data: []byte(record), Header: nats.Header{"KV-Operation": []string{"DEL"}},
	})
}

func publish(t *testing.T, nc *nats.Conn, msg *nats.Msg) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := natslab.JetStream(t, nc).PublishMsg(ctx, msg); err != nil {
		t.Fatal(err)
	}
}
