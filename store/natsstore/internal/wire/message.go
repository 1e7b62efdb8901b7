package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// Headers of key-value buckets and of JetStream (nats.go, jetstream/kv.go and
// message.go; there unexported or scattered).
const (
	HeaderOperation    = "KV-Operation"
	HeaderStatus       = "Status"
	HeaderDescription  = "Description"
	HeaderLastConsumer = "Nats-Last-Consumer"
	HeaderPending      = "Nats-Num-Pending"
)

// Operations that the headers of a bucket's records name.
const (
	OpDelete = "DEL"
	OpPurge  = "PURGE"
)

// Statuses of messages that the server makes.
const (
	StatusHeartbeat    = "100"
	StatusEnd          = "204" // of the answer to a direct get of many keys
	StatusNotFound     = "404"
	StatusNoResponders = "503"
)

// NoResults is the description in the answer to a direct get of many keys if
// there are none; another description means that a key could not be loaded.
const NoResults = "No Results"

// ErrMalformed marks a message that claims to be a stored record or an answer,
// and is not.
var ErrMalformed = errors.New("malformed message from the server")

// tombstone reports whether the headers mark a deletion: a marker that a client
// wrote (delete, purge), or one that the server left at an expiry or a purge
// (ADR-43 of nats-architecture-and-design).
func tombstone(h nats.Header) bool {
	op := h.Get(HeaderOperation)
	return op == OpDelete || op == OpPurge || op == "" && h.Get(jetstream.MarkerReasonHeader) != ""
}

// Record reads an entry out of the answer to a direct get or out of a
// republished message: the stored headers, to which the server appended its
// own.
func Record(key string, m *nats.Msg) (store.Entry, error) {
	seq, err := strconv.ParseUint(Appended(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil || seq == 0 {
		return store.Entry{}, fmt.Errorf("%w: no sequence for key %q", ErrMalformed, key)
	}
	return stored(key, seq, m.Data, m.Header, 1), nil
}

// Republication reads an entry out of a republished message of a bucket whose
// records are republished under prefix, and reports whether it is one.
//
// A message that is not of the stream's making is nobody's record, and one that
// was stored under another key is the answer to a request that asked for it
// here.
func (n Names) Republication(prefix string, m *nats.Msg) (store.Entry, bool) {
	key := strings.TrimPrefix(m.Subject, prefix)
	e, err := Record(key, m)
	return e, err == nil && Appended(m.Header, jetstream.SubjectHeader) == n.Stored+key
}

// Consumed reads an entry out of a message of a consumer. The server keeps what
// it adds to such a message out of the headers.
func Consumed(key string, seq uint64, m *nats.Msg) store.Entry {
	return stored(key, seq, m.Data, m.Header, 0)
}

// stored is the entry of a stored message.
//
// The server writes its answer to a request for one record to whatever subject
// the request names, even over another record, and without a check of
// permissions. Such a message has the server's headers already when it is
// stored, and so more sequences than the server gives it when it is read (own).
// It is not a record, whatever it contains.
func stored(key string, seq uint64, value []byte, h nats.Header, own int) store.Entry {
	if len(h.Values(jetstream.SequenceHeader)) > own {
		return store.Entry{Key: key, Revision: seq}
	}
	// A copy, since the entry is kept for as long as its key is watched, and
	// the message's headers, which are longer, share its memory.
	return store.Entry{Key: key, Revision: seq, Value: bytes.Clone(value), Tombstone: tombstone(h)}
}

// Appended returns the last value of a header. The server adds its headers
// after those that were stored with the message, so an earlier value of the
// same name comes from the writer and may be a lie.
func Appended(h nats.Header, name string) string {
	v := h.Values(name)
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}

// A CopyError is the answer of another stream to a direct get of the bucket: a
// mirror of it, whose records may be of any age.
type CopyError struct{ Stream string }

func (e CopyError) Error() string {
	return fmt.Sprintf("stream %s, a mirror, answers reads of the bucket", e.Stream)
}

// Copied returns a [CopyError] if a stream other than the bucket's answered
// with the message, and nil if the bucket's did, or if the message names none.
func (n Names) Copied(m *nats.Msg) error {
	if stream := Appended(m.Header, nats.JSStream); stream != "" && stream != n.Stream {
		return CopyError{stream}
	}
	return nil
}

// DirectAnswer reads the answer to a direct get of one key. An answer "not
// found" does not name the stream that gave it.
func (n Names) DirectAnswer(key string, m *nats.Msg) (store.Entry, error) {
	if err := n.Copied(m); err != nil {
		return store.Entry{}, err
	}
	// A record has a sequence, and may have a Status of its writer's making.
	if Appended(m.Header, jetstream.SequenceHeader) != "" {
		return Record(key, m)
	}
	switch status := m.Header.Get(HeaderStatus); status {
	case StatusNotFound:
		return store.Entry{Key: key}, nil
	case StatusNoResponders:
		return store.Entry{}, nats.ErrNoResponders
	default:
		return store.Entry{}, fmt.Errorf("%w: status %q %s", ErrMalformed, status, m.Header.Get(HeaderDescription))
	}
}

// MessageAnswer reads the answer to STREAM.MSG.GET.
func MessageAnswer(key string, m *nats.Msg) (store.Entry, error) {
	var reply storedMessage
	err := Answer(m, &reply)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return store.Entry{Key: key}, nil
	}
	if err != nil {
		return store.Entry{}, err
	}
	return reply.entry(key)
}

// MessageRequest is the body of a STREAM.MSG.GET request for a key.
func (n Names) MessageRequest(key string) []byte {
	return JSON(map[string]string{"last_by_subj": n.Stored + key})
}

// JSON encodes what can always be encoded: maps and structs of strings and
// numbers.
func JSON(v any) []byte {
	b, _ := json.Marshal(v) //nolint:errchkjson // see above
	return b
}

// Answer decodes the answer to a JetStream API request into v. It returns an
// error that the answer carries as a *jetstream.APIError.
func Answer(m *nats.Msg, v any) error {
	if unanswered(m) {
		return nats.ErrNoResponders
	}
	var failure struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failure); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if failure.Error != nil {
		return failure.Error
	}
	if err := json.Unmarshal(m.Data, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// unanswered reports whether the server answered that the request has no
// responder.
func unanswered(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get(HeaderStatus) == StatusNoResponders
}

// ErrNotAck marks an answer to a write that contains neither an acknowledgement
// nor a refusal.
var ErrNotAck = errors.New("the answer to a write is not an acknowledgement")

// Named returns the revision at which the stream's leader has the key, from the
// refusal of a write that expected another. Only the error's text contains it.
func Named(refusal error) (revision uint64, ok bool) {
	api, is := errors.AsType[*jetstream.APIError](refusal)
	if !is || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		return 0, false
	}
	_, digits, _ := strings.Cut(api.Description, "wrong last sequence: ")
	revision, err := strconv.ParseUint(digits, 10, 64)
	return revision, err == nil
}

// Probe is a write of the key that no server accepts, and whose refusal names
// the revision of another key: for a user who may write the one and only read
// the other.
func (n Names) Probe(key, other string) *nats.Msg {
	m := n.Write(store.Write{Key: key, Expected: Impossible})
	m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, n.Stored+other)
	return m
}

// Impossible is a revision that no register ever has. It is a number that the
// server reads, and one that no stream will have counted to.
const Impossible = 1 << 62

// Ack reads the answer to a write: the sequence under which it was stored, or
// why it was refused, as a *jetstream.APIError.
func Ack(m *nats.Msg) (sequence uint64, err error) {
	if sequence, ok := plainAck(m.Data); ok {
		return sequence, nil
	}
	if unanswered(m) {
		return 0, nats.ErrNoResponders
	}
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Stream   string              `json:"stream"`
		Sequence uint64              `json:"seq"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotAck, err)
	}
	switch {
	case ack.Error != nil:
		return 0, ack.Error
	case ack.Stream == "" || ack.Sequence == 0:
		return 0, ErrNotAck
	}
	return ack.Sequence, nil
}

// plainAck reads what servers answer to a write that they stored, such as
// {"stream":"KV_b","seq":7}, without a decoder: it is the answer to each
// renewal of each leader. It reports false of anything else.
func plainAck(data []byte) (sequence uint64, ok bool) {
	rest, named := bytes.CutPrefix(data, []byte(`{"stream":"`))
	rest, closed := bytes.CutSuffix(rest, []byte(`}`))
	end := bytes.IndexByte(rest, '"')
	if !named || !closed || end < 1 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return 0, false
	}
	digits, plain := bytes.CutPrefix(rest[end:], []byte(`","seq":`))
	// No 19 digits exceed 64 bits.
	if !plain || len(digits) == 0 || digits[0] == '0' || len(digits) > 19 {
		return 0, false
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		sequence = 10*sequence + uint64(d-'0')
	}
	return sequence, true
}

// Write is the message that stores a value under a key, if the key is at the
// expected revision.
func (n Names) Write(w store.Write) *nats.Msg { return n.NewForm().Fill(w) }

// A Form is a reusable message, filled in again for each write. A leader writes
// with each heartbeat, and a new message each time costs as much as sending it.
//
// It is not safe for concurrent use.
type Form struct {
	names    Names
	msg      nats.Msg
	expected []string // in the header
}

// NewForm returns an empty form.
func (n Names) NewForm() *Form {
	f := &Form{names: n, expected: make([]string, 1)}
	// After the bucket was deleted, another stream may have taken its subjects
	// in.
	f.msg.Header = nats.Header{jetstream.ExpectedStreamHeader: {n.Stream}}
	return f
}

// Fill returns the message of a write, which is the form's own until the next.
func (f *Form) Fill(w store.Write) *nats.Msg {
	f.msg.Subject, f.msg.Reply, f.msg.Data = f.names.Put+w.Key, "", w.Value
	f.expected[0] = strconv.FormatUint(w.Expected, 10)
	f.msg.Header[jetstream.ExpectedLastSubjSeqHeader] = f.expected
	if w.Tombstone {
		f.msg.Header.Set(HeaderOperation, OpDelete)
	} else {
		f.msg.Header.Del(HeaderOperation)
	}
	return &f.msg
}

// Empty lets go of the value of the last write.
func (f *Form) Empty() { f.msg.Data = nil }

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
			return store.Entry{}, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return stored(key, s.Message.Sequence, s.Message.Data, h, 0), nil
}

// A State is the state of some of the stream's keys, as the stream's leader
// reports it.
type State struct {
	// LastSequence is the sequence of the newest message of the whole stream.
	LastSequence uint64

	names    Names
	subjects map[string]uint64
}

// StateRequest is the body of a request for the state of the keys that match a
// pattern, on the subject [Names.Info].
func (n Names) StateRequest(pattern string) []byte {
	return JSON(map[string]string{"subjects_filter": n.Stored + pattern})
}

// State reads the answer to such a request.
func (n Names) State(info *jetstream.StreamInfo) State {
	return State{LastSequence: info.State.LastSeq, names: n, subjects: info.State.Subjects}
}

// maxSubjects is how many subjects a server names in one answer (nats-server,
// jetstream_api.go, JSMaxSubjectDetails).
const maxSubjects = 100_000

// Whole reports whether the state names all keys that match the pattern.
func (s State) Whole() bool { return len(s.subjects) < maxSubjects }

// Keys are the keys of which the stream holds a record. Subjects that are not
// keys are left out, as they are where records are read.
func (s State) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for subject, n := range s.subjects {
			key := strings.TrimPrefix(subject, s.names.Stored)
			if n > 0 && store.ValidKey(key) && !yield(key) {
				return
			}
		}
	}
}

// Has reports whether the stream holds a record of the key, which must match
// the pattern that was asked for.
func (s State) Has(key string) bool { return s.subjects[s.names.Stored+key] > 0 }
