package app

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// StoredAt returns when the server stored the record of a key, such as a
// group's, and its revision. The zero time means that the time is unknown: the
// bucket allows no direct reads, the record is gone, or the store is not a NATS
// bucket.
func (s *Session) StoredAt(ctx context.Context, key string) (time.Time, uint64, error) {
	if s.NC == nil {
		return time.Time{}, 0, nil
	}
	st, err := s.NewStore(natsstore.Options{})
	if err != nil {
		return time.Time{}, 0, err
	}
	defer st.Close()
	return st.StoredAt(ctx, key)
}

// Imported reports whether the bucket is another account's, which the context
// of the session reaches by the context's API prefix.
func (s *Session) Imported() bool { return s.api.APIPrefix != "" }

// Domain returns the JetStream domain of the bucket, if one was named.
func (s *Session) Domain() string { return s.api.Domain }

// StoreOfCandidates returns one store for all candidates of the session, which
// closes it. The options of the first call apply. It may be called
// concurrently.
func (s *Session) StoreOfCandidates(opts natsstore.Options) (st Registers, err error) {
	s.candidates.Do(func() { s.shared, s.sharedErr = s.StoreOfKeys(opts) })
	return s.shared, s.sharedErr
}

// StoreOfKeys returns the bucket as a store whose user needs no right but to
// the keys that are used. The session closes it.
func (s *Session) StoreOfKeys(opts natsstore.Options) (Registers, error) {
	return s.store(opts)
}
