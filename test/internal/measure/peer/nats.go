package peer

import (
	"context"
	"io"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// NATS is one nats-server, or a cluster.
type NATS struct{}

// Name implements [Store].
func (NATS) Name() string { return "nats-server " + Version("github.com/nats-io/nats-server/v2") }

// Serve implements [Store].
func (NATS) Serve(servers int, dir string, port int, stdin io.Reader, stdout io.Writer) error {
	return harness.ServeNATS(harness.NATSOptions{Servers: servers, Dir: dir, Port: port}, stdin, stdout)
}

// Prepare makes [Bucket].
func (NATS) Prepare(ctx context.Context, at harness.Servers) error {
	return onNATS(at, func(js jetstream.JetStream) error {
		return natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: Bucket, Replicas: len(at.URLs)})
	})
}

// Delete implements [Store].
func (NATS) Delete(ctx context.Context, at harness.Servers, group string) error {
	return onNATS(at, func(js jetstream.JetStream) error {
		kv, err := js.KeyValue(ctx, Bucket)
		if err != nil {
			return err
		}
		return kv.Delete(ctx, group)
	})
}

// Swaps implements [Store].
func (NATS) Swaps(_ context.Context, at harness.Servers) (*harness.Swaps, error) {
	return harness.NATS{Servers: at}.Swaps(Bucket)
}

// Messages implements [Store].
func (NATS) Messages(ctx context.Context, at harness.Servers) (in, out int64, err error) {
	return harness.NATS{Servers: at}.Messages(ctx)
}

func onNATS(at harness.Servers, f func(jetstream.JetStream) error) error {
	nc, err := nats.Connect(at.URLs[0])
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return f(js)
}
