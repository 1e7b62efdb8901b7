package app

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// needsJetStream returns an error if the server has no JetStream, in the words
// that an election uses. Otherwise each command would fail in different words,
// and some would wait until their time is over. Only a server that reports that
// it has none is asked, and the store judges its answer, since another server
// may answer yet. The doctor reports what else there is.
func (s *Session) needsJetStream() error {
	if has, _ := s.NC.ConnectedServerJetStream(); has || s.command == "doctor" {
		return nil
	}
	st, err := s.NewStore(natsstore.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	ctx, cancel := context.WithTimeout(context.Background(), min(s.Timeout, time.Second))
	defer cancel()
	_, err = st.Check(ctx, store.CheckRequest{TTL: time.Second})
	if errors.Is(err, nats.ErrNoResponders) && errors.Is(err, store.ErrPermanent) {
		return err
	}
	return nil // the command itself finds what else there is
}
