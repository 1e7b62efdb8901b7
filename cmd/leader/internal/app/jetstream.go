package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
)

// needsJetStream says so if the server has no JetStream. Each command would
// fail in words of its own otherwise, and some would wait until their time is
// over, since elsewhere such an answer may pass: another server of a cluster,
// or the one behind a leaf node, may answer yet. So only a server that stands
// alone, and says that it has none, is asked. The doctor tells what else there
// is.
func (s *Session) needsJetStream() error {
	has, _ := s.NC.ConnectedServerJetStream()
	if s.command == "doctor" || has || s.NC.ConnectedClusterName() != "" || s.Domain != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(s.Timeout, time.Second))
	defer cancel()
	_, err := s.NC.RequestWithContext(ctx, "$JS.API.STREAM.INFO.KV_"+s.Bucket, nil)
	if !errors.Is(err, nats.ErrNoResponders) {
		return nil // the command itself finds what else there is
	}
	return fmt.Errorf("%w: the server %s has no JetStream: start it with nats-server -js (jetstream {} in its configuration),"+
		" or name the JetStream domain if that is behind a leaf node: %w", store.ErrPermanent, s.URL, err)
}
