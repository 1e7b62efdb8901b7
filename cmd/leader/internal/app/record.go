package app

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// StoredAt returns when the server stored the record of a key, such as a
// group's, and its revision. The zero time means that it does not say: the bucket allows no direct reads,
// the record is gone, or
// the store is no NATS bucket.
func (s *Session) StoredAt(ctx context.Context, key string) (time.Time, uint64, error) {
	if s.NC == nil {
		return time.Time{}, 0, nil
	}
	m, err := s.NC.RequestMsgWithContext(ctx, nats.NewMsg(s.API()+"DIRECT.GET.KV_"+s.Bucket+".$KV."+s.Bucket+"."+key))
	if err != nil {
		return time.Time{}, 0, err
	}
	at, err := time.Parse(time.RFC3339Nano, last(m, jetstream.TimeStampHeaer))
	if err != nil {
		return time.Time{}, 0, nil //nolint:nilerr // not an answer with a time in it, which is not known then
	}
	// Without the header it is 0, the revision of nothing.
	revision, _ := strconv.ParseUint(last(m, jetstream.SequenceHeader), 10, 64)
	return at.UTC(), revision, nil
}

// last is the server's own value of a header: it stands behind those that the
// writer stored.
func last(m *nats.Msg, header string) string {
	values := m.Header.Values(header)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// Imported reports whether the bucket is another account's, which the context of
// the session reaches by a prefix of its own.
func (s *Session) Imported() bool { return s.api.APIPrefix != "" }

// Domain returns the JetStream domain of the bucket, if one was named.
func (s *Session) Domain() string { return s.api.Domain }

// StoreOfCandidates returns one store for all candidates of the session, which
// closes it. The options are those of the first call. It may be called
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
