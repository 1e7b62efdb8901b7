package announce

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/seed-ff2cb582/leader/discovery"
)

// A record's content may have been written by anybody with the right to write
// there.
func TestARecordSteersNoTerminalAndMakesNoLines(t *testing.T) {
	evil := discovery.Entry{Group: "jobs", Instance: "a\x1b[2J", Term: 7, Address: "192.0.2.1:80\njobs removed a 7"}
	var text, objects bytes.Buffer
	for out, asJSON := range map[*bytes.Buffer]bool{&text: false, &objects: true} {
		newCounts("leaders", []string{"jobs"}, out, asJSON).of("jobs")(discovery.Event{Kind: discovery.Announced, Entry: evil})
	}
	said, ok := strings.CutSuffix(text.String(), "\n")
	if !ok || strings.ContainsFunc(said, unicode.IsControl) || !strings.HasPrefix(said, "jobs announced a") {
		t.Errorf("%q", text.String())
	}
	var l line
	d := json.NewDecoder(&objects)
	if err := d.Decode(&l); err != nil || d.More() || l.Time.IsZero() {
		t.Fatal(err, l)
	}
	if l.Group != "jobs" || l.Event != discovery.Announced || l.Leader != evil.Instance || l.Term != 7 || l.Address != evil.Address {
		t.Errorf("%+v", l)
	}
}

func TestEventsAreCounted(t *testing.T) {
	c := newCounts("leaders", []string{"jobs", "other"}, new(bytes.Buffer), false)
	report := c.of("jobs")
	for _, kind := range []discovery.Kind{discovery.Announced, discovery.Repaired, discovery.Superseded, discovery.Failed, discovery.Failed} {
		report(discovery.Event{Kind: kind, Entry: discovery.Entry{Group: "jobs", Term: 7}, Err: errors.New("503")})
	}
	want := func(text string) {
		t.Helper()
		if err := testutil.CollectAndCompare(c, strings.NewReader(text), "election_announcer_term", "election_announcer_events_total"); err != nil {
			t.Error(err)
		}
	}
	const head = `# HELP election_announcer_events_total What was done to the leader's entry: announced, repaired, removed; or why it was not: superseded by the entry of a later term, failed.
# TYPE election_announcer_events_total counter
`
	const other = `election_announcer_events_total{bucket="leaders",event="announced",role="other"} 0
election_announcer_events_total{bucket="leaders",event="failed",role="other"} 0
election_announcer_events_total{bucket="leaders",event="removed",role="other"} 0
election_announcer_events_total{bucket="leaders",event="repaired",role="other"} 0
election_announcer_events_total{bucket="leaders",event="superseded",role="other"} 0
# HELP election_announcer_term Number of the term whose entry this process wrote last; 0 before, and since it has removed one.
# TYPE election_announcer_term gauge
election_announcer_term{bucket="leaders",role="other"} 0
`
	counted := func(removed, term string) string {
		return head + `election_announcer_events_total{bucket="leaders",event="announced",role="jobs"} 1
election_announcer_events_total{bucket="leaders",event="failed",role="jobs"} 2
election_announcer_events_total{bucket="leaders",event="removed",role="jobs"} ` + removed + `
election_announcer_events_total{bucket="leaders",event="repaired",role="jobs"} 1
election_announcer_events_total{bucket="leaders",event="superseded",role="jobs"} 1
` + other + `election_announcer_term{bucket="leaders",role="jobs"} ` + term + "\n"
	}
	want(counted("0", "7"))
	report(discovery.Event{Kind: discovery.Removed, Entry: discovery.Entry{Group: "jobs", Term: 7}})
	want(counted("1", "0"))
}
