package read_test

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/built"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Each command had words of its own for that, from four exit statuses, and
// those that steer waited until their time was over.
func TestEachCommandSaysThatAServerHasNoJetStream(t *testing.T) {
	t.Parallel()
	url := natslab.Start(t, natslab.WithoutJetStream()).URL()
	for _, line := range []string{
		"ls", "get g", "watch", "wait g", "token verify g --term 1 --token t", "history show g", "history enable", "history disable --yes",
		"bucket create", "bucket check", "step-down g --yes", "pause g --yes", "vacate g --yes", "dash --http 127.0.0.1:0", "exporter --http 127.0.0.1:0",
	} {
		code, out, stderr := built.Try(within(t), t, program, append(strings.Fields(line), "--server", url)...)
		if code != 5 || out != "" || !strings.Contains(stderr, "has no JetStream: start it with nats-server -js") || strings.Count(stderr, "\n") != 1 {
			t.Fatalf("leader %s: exit status %d, %q\n%s", line, code, out, stderr) // a page that is served would go on
		}
	}
	// One that was named may be in reach by an import, and come later.
	code, _, stderr := built.Try(within(t), t, program, "ls", "--server", url, "--js-domain", "hub")
	if code != 1 || strings.Contains(stderr, "start it with") {
		t.Errorf("in a domain: exit status %d\n%s", code, stderr)
	}
}

// A leaf node without JetStream passes requests on to the domain of a hub.
func TestAServerWithoutJetStreamMayReachOneThatHasIt(t *testing.T) {
	t.Parallel()
	hub := natslab.Start(t, natslab.Domain("hub"), natslab.AcceptLeaves())
	leaf := natslab.StartLeaf(t, hub.LeafAddr(), natslab.WithoutJetStream())
	nc := hub.Connect(t)
	if err := natsstore.EnsureBucket(within(t), natslab.JetStream(t, nc), natsstore.BucketConfig{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	lead(t, nc, bucket)
	code, out, stderr := built.Try(within(t), t, program, "ls", "-o", "name", "--server", leaf.URL(), "--bucket", bucket, "--js-domain", "hub", "--timeout", "30s")
	if code != 0 || out != group+"\n" {
		t.Errorf("exit status %d, %q\n%s", code, out, stderr)
	}
}
