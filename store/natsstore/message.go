package natsstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// Headers of key-value buckets and of JetStream (nats.go, jetstream/kv.go and
// message.go; there unexported or scattered).
const (
	hdrOperation   = "KV-Operation"
	hdrStatus      = "Status"
	hdrDescription = "Description"
	hdrLastDeliver = "Nats-Last-Consumer"
	hdrPending     = "Nats-Num-Pending"

	opDelete = "DEL"
	opPurge  = "PURGE"

	statusHeartbeat    = "100"
	statusNotFound     = "404"
	statusNoResponders = "503"
)

// errNotRecord: a message claims to be a stored record, and is not.
var errNotRecord = errors.New("malformed message from the server")

// tombstone reports whether the headers are those of a deletion: a marker that
// a client wrote (delete, purge), or one that the server left at an expiry or a
// purge (ADR-43 of nats-architecture-and-design).
func tombstone(h nats.Header) bool {
	op := h.Get(hdrOperation)
	return op == opDelete || op == opPurge || op == "" && h.Get(jetstream.MarkerReasonHeader) != ""
}

// recordEntry reads an entry out of a direct get's answer or of a republished
// message: the stored headers, to which the server appended its own.
func recordEntry(key string, m *nats.Msg) (store.Entry, error) {
	seq, err := strconv.ParseUint(appended(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil || seq == 0 {
		return store.Entry{}, fmt.Errorf("%w: no sequence for key %q", errNotRecord, key)
	}
	return stored(key, seq, m.Data, m.Header, 1), nil
}

// stored is the entry of a stored message. The server writes its answer to a
// request for one record wherever the request says, over another record too,
// and asks nobody's permission: such a message has the server's headers already
// when it is stored, and so more sequences than the server gives it when it is
// read (own). It is nobody's record, whatever it says.
func stored(key string, seq uint64, value []byte, h nats.Header, own int) store.Entry {
	if len(h.Values(jetstream.SequenceHeader)) > own {
		return store.Entry{Key: key, Revision: seq}
	}
	return store.Entry{Key: key, Revision: seq, Value: value, Tombstone: tombstone(h)}
}

// appended returns the last value of a header. The server adds its headers
// after those that were stored with the message, so an earlier value of the
// same name comes from the writer and may be a lie.
func appended(h nats.Header, name string) string {
	v := h.Values(name)
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}

// directEntry reads the answer to a direct get.
func directEntry(key string, m *nats.Msg) (store.Entry, error) {
	// A record has a sequence, and may have a Status of its writer's making.
	if appended(m.Header, jetstream.SequenceHeader) != "" {
		return recordEntry(key, m)
	}
	switch status := m.Header.Get(hdrStatus); status {
	case statusNotFound:
		return store.Entry{Key: key}, nil
	case statusNoResponders:
		return store.Entry{}, nats.ErrNoResponders
	default:
		return store.Entry{}, fmt.Errorf("%w: status %q %s", errNotRecord, status, m.Header.Get(hdrDescription))
	}
}

// apiReply decodes the answer of a JetStream API request into v; an error that
// it carries is returned as a *jetstream.APIError.
func apiReply(m *nats.Msg, v any) error {
	if len(m.Data) == 0 && m.Header.Get(hdrStatus) == statusNoResponders {
		return nats.ErrNoResponders
	}
	var failure struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failure); err != nil {
		return fmt.Errorf("%w: %w", errNotRecord, err)
	}
	if failure.Error != nil {
		return failure.Error
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(m.Data, v); err != nil {
		return fmt.Errorf("%w: %w", errNotRecord, err)
	}
	return nil
}

// storedMessage is the answer to STREAM.MSG.GET.
type storedMessage struct {
	Message struct {
		Sequence uint64 `json:"seq"`
		Header   []byte `json:"hdrs"`
		Data     []byte `json:"data"`
	} `json:"message"`
}

func (s *storedMessage) entry(key string) (store.Entry, error) {
	var h nats.Header
	if raw := s.Message.Header; len(raw) > 0 {
		var err error
		if h, err = nats.DecodeHeadersMsg(raw); err != nil {
			return store.Entry{}, fmt.Errorf("%w: %w", errNotRecord, err)
		}
	}
	return stored(key, s.Message.Sequence, bytes.Clone(s.Message.Data), h, 0), nil
}
