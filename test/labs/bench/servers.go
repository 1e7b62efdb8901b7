package main

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
	measure "github.com/seed-ff2cb582/leader/test/internal/measure/lab"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// A lab is what the sections measure in.
type lab struct {
	harness.Run

	one     *servers
	three   *servers
	report  *report
	buckets int
}

// servers are one or three nats-servers in another process.
type servers struct {
	harness.NATS

	bench *measure.Bench
}

func startServers(r harness.Run, n int) (*servers, error) {
	b, err := measure.Open(r, peer.Ours{}, n)
	if err != nil {
		return nil, err
	}
	return &servers{NATS: harness.NATS{Servers: b.Site.At()}, bench: b}, nil
}

func (s *servers) replicas() int { return len(s.URLs) }

// bucket makes a bucket with the library, and returns its name.
func (l *lab) bucket(s *servers) (string, error) {
	nc, err := s.Connect()
	if err != nil {
		return "", err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return "", err
	}
	l.buckets++
	name := fmt.Sprintf("b%d", l.buckets)
	cfg := natsstore.BucketConfig{Bucket: name, Replicas: s.replicas()}
	return name, l.eventually("bucket "+name, func(ctx context.Context) error {
		if err := natsstore.EnsureBucket(ctx, js, cfg); err != nil {
			return err
		}
		_, err := js.KeyValue(ctx, name)
		return err
	})
}

// traffic is what the servers' clients sent and received.
type traffic struct {
	In, Out int64
}

func (t traffic) sub(b traffic) traffic { return traffic{t.In - b.In, t.Out - b.Out} }

func (l *lab) traffic(s *servers) (t traffic, err error) {
	t.In, t.Out, err = s.Messages(l.Ctx)
	return t, err
}
