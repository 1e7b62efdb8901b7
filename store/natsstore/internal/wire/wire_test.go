package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

func TestWritesTravelUnderThePrefixOfAnotherAPI(t *testing.T) {
	for api, put := range map[string]string{
		jetstream.DefaultAPIPrefix: "$KV.b.",
		"$JS.hub.API.":             "$JS.hub.API.$KV.b.",
	} {
		n := NewNames("b", api)
		if n.Put != put || n.Stored != "$KV.b." || n.Direct("k") != api+"DIRECT.GET.KV_b.$KV.b.k" {
			t.Errorf("%s: published to %s, stored under %s, read by %s", api, n.Put, n.Stored, n.Direct("k"))
		}
	}
}

func TestOnlyWholeRecordsUnderTheirKeyCountAsRepublished(t *testing.T) {
	names := NewNames("b", jetstream.DefaultAPIPrefix)
	for _, c := range []struct {
		rp   *jetstream.RePublish
		want string
	}{
		{nil, ""},
		{&jetstream.RePublish{Source: "$KV.b.>", Destination: "leader.b.>"}, "leader.b."},
		{&jetstream.RePublish{Source: ">", Destination: "copy.>"}, "copy.$KV.b."},
		{&jetstream.RePublish{Destination: "copy.>"}, "copy.$KV.b."},
		{&jetstream.RePublish{Source: "$KV.>", Destination: "copy.>"}, "copy.b."},
		{&jetstream.RePublish{Source: "$KV.b.>", Destination: "leader.b.>", HeadersOnly: true}, ""},
		{&jetstream.RePublish{Source: "$KV.b.some.>", Destination: "leader.b.>"}, ""},
		{&jetstream.RePublish{Source: "$KV.b.*", Destination: "leader.b.{{wildcard(1)}}"}, ""},
		{&jetstream.RePublish{Source: "$KV.b.>", Destination: "one.subject"}, ""},
	} {
		if got := names.Republished(c.rp); got != c.want {
			t.Errorf("%+v: %q, want %q", c.rp, got, c.want)
		}
	}
}

func TestMarkersAreTombstones(t *testing.T) {
	for _, c := range []struct {
		header nats.Header
		want   bool
	}{
		{nil, false},
		{nats.Header{"Nats-Sequence": {"1"}}, false},
		{nats.Header{"KV-Operation": {"DEL"}}, true},
		{nats.Header{"KV-Operation": {"PURGE"}}, true},
		{nats.Header{"KV-Operation": {"PUT"}}, false},
		{nats.Header{"Nats-Marker-Reason": {"MaxAge"}}, true},
	} {
		if got := tombstone(c.header); got != c.want {
			t.Errorf("%v: %v, want %v", c.header, got, c.want)
		}
	}
}

// Headers that the writer of a record set must not pass for the server's
// headers, and an answer that was written over a record is not a record.
func TestTheServersHeadersAreTheLast(t *testing.T) {
	names := NewNames("b", jetstream.DefaultAPIPrefix)
	msg := func(subject string, sequences ...string) *nats.Msg {
		return &nats.Msg{Subject: "leader.b.k", Data: []byte("v"), Header: nats.Header{
			jetstream.SequenceHeader: sequences, jetstream.SubjectHeader: {subject},
		}}
	}
	for _, c := range []struct {
		name string
		m    *nats.Msg
		want store.Entry
		ok   bool
	}{
		{"a record", msg("$KV.b.k", "7"), store.Entry{Key: "k", Revision: 7, Value: []byte("v")}, true},
		{"an answer that was written over a record", msg("$KV.b.k", "3", "7"), store.Entry{Key: "k", Revision: 7}, true},
		{"an answer that somebody asked for here", msg("$KV.b.other", "7"), store.Entry{}, false},
		{"a message of nobody's stream", &nats.Msg{Subject: "leader.b.k"}, store.Entry{}, false},
		{"a sequence of 0", msg("$KV.b.k", "0"), store.Entry{}, false},
	} {
		got, ok := names.Republication("leader.b.", c.m)
		if ok != c.ok || ok && (got.Key != c.want.Key || got.Revision != c.want.Revision || !bytes.Equal(got.Value, c.want.Value)) {
			t.Errorf("%s: %+v, %v", c.name, got, ok)
		}
	}
}

func TestAnswersToReadsAreRecordsOrReasons(t *testing.T) {
	status := func(s string) *nats.Msg { return &nats.Msg{Header: nats.Header{HeaderStatus: {s}}} }
	if e, err := NewNames("b", jetstream.DefaultAPIPrefix).DirectAnswer("k", status(StatusNotFound)); err != nil || e.Key != "k" || e.Revision != 0 {
		t.Errorf("an absent key: %+v, %v", e, err)
	}
	if _, err := NewNames("b", jetstream.DefaultAPIPrefix).DirectAnswer("k", status(StatusNoResponders)); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("nobody: %v", err)
	}
	if _, err := NewNames("b", jetstream.DefaultAPIPrefix).DirectAnswer("k", status("408")); !errors.Is(err, ErrMalformed) {
		t.Errorf("a status of tomorrow: %v", err)
	}
	answer := func(body string) *nats.Msg { return &nats.Msg{Data: []byte(body)} }
	e, err := MessageAnswer("k", answer(`{"message":{"seq":9,"data":"dg=="}}`))
	if err != nil || e.Revision != 9 || string(e.Value) != "v" {
		t.Errorf("a stored message: %+v, %v", e, err)
	}
	if e, err := MessageAnswer("k", answer(`{"error":{"code":404,"err_code":10037}}`)); err != nil || e.Revision != 0 {
		t.Errorf("no message: %+v, %v", e, err)
	}
	for _, body := range []string{"", "x", `{"message":5}`} {
		if _, err := MessageAnswer("k", answer(body)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// Nothing but the server's word that a write was stored is one.
func TestOnlyAnAcknowledgementIsOne(t *testing.T) {
	ack := func(body string) (uint64, error) { return Ack(&nats.Msg{Data: []byte(body)}) }
	for _, body := range []string{
		`{"stream":"KV_b","seq":7}`, `{"stream":"KV_b", "domain":"hub", "seq":7}`, `{"type":"x","stream":"KV_b","seq":7,"later":[1]}`,
	} {
		if seq, err := ack(body); err != nil || seq != 7 {
			t.Errorf("%s: %d, %v", body, seq, err)
		}
	}
	for _, body := range []string{"", "x", "{}", `{"seq":7}`, `{"stream":"KV_b"}`, `{"stream":"KV_b","seq":"7"}`, `{"stream":"KV_b","seq":-7}`} {
		if seq, err := ack(body); seq != 0 || !errors.Is(err, ErrNotAck) {
			t.Errorf("%q: %d, %v", body, seq, err)
		}
	}
	seq, err := ack(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"},"stream":"KV_b","seq":0}`)
	var refused *jetstream.APIError
	if seq != 0 || !errors.As(err, &refused) || refused.ErrorCode != 10071 {
		t.Errorf("a refusal: %d, %v", seq, err)
	}
}

// An acknowledgement that is read without a decoder reads the same with one.
func FuzzAck(f *testing.F) {
	for _, body := range []string{
		`{"stream":"KV_b","seq":7}`, `{"stream":"KV_b","seq":18446744073709551615}`, `{"stream":"KV_b","seq":18446744073709551616}`,
		`{"stream":"KV_b","seq":9999999999999999999}`, `{"stream":"","seq":7}`, `{"stream":"a\"","seq":7}`, `{"stream":"KV_b","seq":07}`,
		`{"stream":"KV_b","seq":7,"error":{}}`, `{"stream":"KV_b","domain":"d","seq":7}`, `{"stream":"KV_b","seq":}`, `{"stream":"KV_b","seq":7}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sequence, ok := plainAck(body)
		if !ok {
			return
		}
		var ack struct {
			Stream string           `json:"stream"`
			Seq    uint64           `json:"seq"`
			Error  *json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(body, &ack); err != nil && utf8.Valid(body) && !bytes.ContainsFunc(body, unicode.IsControl) {
			t.Fatalf("%q: read as %d, %v", body, sequence, err)
		} else if err == nil && (ack.Seq != sequence || ack.Stream == "" || ack.Error != nil) {
			t.Fatalf("%q: read as %d, is %+v", body, sequence, ack)
		}
	})
}

func TestEveryWriteStatesWhatItExpects(t *testing.T) {
	n := NewNames("b", "$JS.hub.API.")
	for _, w := range []store.Write{{Key: "k", Value: []byte("v")}, {Key: "k", Expected: 7, Tombstone: true}} {
		m := n.Write(w)
		if m.Subject != "$JS.hub.API.$KV.b.k" || !bytes.Equal(m.Data, w.Value) || tombstone(m.Header) != w.Tombstone ||
			m.Header.Get("Nats-Expected-Last-Subject-Sequence") != fmt.Sprint(w.Expected) || m.Header.Get("Nats-Expected-Stream") != "KV_b" {
			t.Errorf("%+v: %+v", w, m)
		}
	}
}

// The texts are from nats-server 2.15.2 (client.go), with the prefix that
// nats.go adds.
func TestViolationsAreMatchedByActAndSubject(t *testing.T) {
	for text, act := range map[string]Act{
		`Permissions Violation for Publish to "a.b.c"`:                                Publish,
		`Permissions Violation for Subscription to "a.b.c"`:                           Subscribe,
		`Permissions Violation for Subscription to "a.b.c" using queue "q"`:           Subscribe,
		`Permissions Violation for Subscription to "a.b.c" (sid "1")`:                 Subscribe,
		`Permissions Violation for Subscription to "a.b.c", too many tokens`:          Subscribe,
		`Permissions Violation for Publish with Reply of "a.b.c"`:                     "",
		`Permissions Violation for Subscription to "other" using queue "a.b.c"`:       "",
		`Permissions Violation for Subscription to "x" using queue "a.b.c" (sid "1")`: "",
	} {
		denied := fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text)
		for _, asked := range []Act{Publish, Subscribe} {
			for subject, named := range map[string]bool{"a.b.c": true, "a.b.": true, "a.b": false, "a.": true, "b.c": false, "": false, "q": false} {
				if got, want := Violation(denied, asked, subject) != nil, named && asked == act; got != want {
					t.Errorf("%s: of %s to %q: %v", text, asked, subject, got)
				}
			}
		}
	}
	if Violation(nil, Publish, "a.") != nil || Violation(errors.New(`Publish to "a.b.c"`), Publish, "a.b.c") != nil {
		t.Error("another error was taken for a violation")
	}
}

// A user who watches other keys of the bucket has other rights.
func TestDeniedConsumerIsIdentifiedByItsFilter(t *testing.T) {
	n := NewNames("b", "$JS.API.")
	for subject, filter := range map[string]string{
		"$JS.API.CONSUMER.CREATE.KV_b.name.$KV.b.x":        "x",
		"$JS.API.CONSUMER.CREATE.KV_b.name.$KV.b.x.y":      "x.y",
		"$JS.API.CONSUMER.CREATE.KV_b.name.$KV.b.>":        ">",
		"$JS.API.CONSUMER.CREATE.KV_b.name":                "",
		"$JS.API.CONSUMER.CREATE.KV_c.name.$KV.b.x":        "",
		"$JS.API.CONSUMER.CREATE.KV_b.name.$KV.c.x":        "",
		"$JS.API.CONSUMER.CREATE.KV_b.name.else.$KV.b.x.y": "",
	} {
		denied := fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, subject)
		for _, f := range []string{"x", "y", "x.y", ">", "x.>"} {
			if got, want := n.ConsumerViolation(denied, f) != nil, f == filter; got != want {
				t.Errorf("%s: of %q: %v", subject, f, got)
			}
		}
	}
	if n.ConsumerViolation(nil, "x") != nil {
		t.Error("no error was taken for a violation")
	}
}

func TestAFormForgetsTheWriteBefore(t *testing.T) {
	f := NewNames("b", "$JS.API.").NewForm()
	first := f.Fill(store.Write{Key: "g", Value: []byte("gone"), Expected: 7, Tombstone: true})
	first.Reply = "answers.1"
	m := f.Fill(store.Write{Key: "h", Value: []byte("new"), Expected: 8})
	if m.Subject != "$KV.b.h" || m.Reply != "" || string(m.Data) != "new" || len(m.Header) != 2 || tombstone(m.Header) ||
		m.Header.Get("Nats-Expected-Last-Subject-Sequence") != "8" {
		t.Errorf("%+v", m)
	}
	f.Empty()
	if m.Data != nil {
		t.Errorf("the form holds %q", m.Data)
	}
}
