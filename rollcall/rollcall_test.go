package rollcall

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// The caller names the subject of the answer. It must not have a meaning for
// anybody else.
func TestAnswersGoOnlyWhereAnswersAreMeantToGo(t *testing.T) {
	for subject, want := range map[string]bool{
		"_INBOX.abc.leader-rollcall":                true,
		"_INBOX_operator.x.y.leader-rollcall":       true,
		"":                                          false,
		"leader-rollcall":                           false,
		"_INBOX.abc":                                false,
		"$KV.leaders.g":                             false,
		"$KV.leaders.g.leader-rollcall":             false,
		"imported.$KV.leaders.leader-rollcall":      false,
		"$JS.API.STREAM.PURGE.X.leader-rollcall":    false,
		"leader-rollcall.leaders.g.leader-rollcall": false,
		"_INBOX..leader-rollcall":                   false,
		"_INBOX.leader-rollcall.":                   false,
	} {
		if forAnswers(subject) != want {
			t.Errorf("%q: %v", subject, !want)
		}
	}
}

func TestMalformedAnswerIsRefused(t *testing.T) {
	for _, data := range []string{
		"", "null", "[]", "{}", `{"format":2,"bucket":"b","group":"g","instance":"a"}`,
		`{"format":1,"bucket":"b","group":"other","instance":"a"}`, `{"format":1,"bucket":"other","group":"g","instance":"a"}`,
		`{"format":1,"bucket":"b","group":"g"}`, `{"format":1,"bucket":"b","group":"g","instance":7}`,
		`{"format":1,"bucket":"b","group":"g","instance":"` + strings.Repeat("x", maxAnswer) + `"}`,
		`{"format":1,"bucket":"b","group":"g","instance":"a","term":9007199254740993}`,
		`{"format":1,"bucket":"b","group":"g","instance":"a","lag_ms":-1}`,
		`{"format":1,"bucket":"b","group":"g","instance":"a","lag_ms":9223372036855}`, // in nanoseconds beyond 64 bits
		`{"format":1,"bucket":"b","group":"g","instance":"a","trust_left_ms":9223372036854775807}`,
		`{"format":1,"bucket":"b","group":"g","instance":"a","since":"9999-12-31T23:59:59-01:00"}`, // it has no RFC 3339 text in UTC
	} {
		if c, err := decode(&nats.Msg{Data: []byte(data)}, "b", "g"); !errors.Is(err, ErrMalformed) || c != (Candidate{}) {
			t.Errorf("%.60q: %v %+v", data, err, c)
		}
	}
	c, err := decode(&nats.Msg{Data: []byte(`{"format":1,"bucket":"b","group":"g","instance":"a","mood":"good"}`)}, "b", "g")
	if err != nil || c.Instance != "a" {
		t.Errorf("%v: %+v", err, c)
	}
}
