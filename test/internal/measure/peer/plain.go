package peer

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// plain is this project in a bucket as `nats kv add` makes it, without a store
// of the program's own.
type plain struct{ Ours }

// plainBucket is that bucket.
const plainBucket = "plain"

func (plain) Name() string { return "leader-plain" }

func (plain) Connect(address string, opts Options) (Client, error) {
	nc, err := ConnectNATS(address, opts)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: plainBucket})
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &OurClient{conn: nc, Bucket: plainBucket}, nil
}
