package gcsstore_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/storage/v1"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/objectlab"
)

func candidate(heartbeat time.Duration) store.CheckRequest {
	return store.CheckRequest{TTL: 10 * time.Second, HeartbeatInterval: heartbeat, Key: "a", Reads: []string{"_ctl.a"}}
}

func TestABucketThatSuitsIsFoundFit(t *testing.T) {
	t.Parallel()
	since := time.Now()
	srv, _ := made(t)
	s := at(t, srv.Addr, "")
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	r, err := s.Check(trial.Within(t), candidate(2*time.Second))
	if err != nil || len(r.Warnings) != 0 || r.Forgetful || r.Expires {
		t.Fatalf("%+v, %v", r, err)
	}
	if most := time.Since(since); r.Age <= 0 || r.Age > most {
		t.Errorf("the bucket is reported to be %v old, and was made at most %v ago", r.Age, most)
	}
	if e := trial.Get(t, s, "a"); e.Revision != rev {
		t.Errorf("the record was changed: %+v", e)
	}
}

func TestAHeartbeatThatIsTooQuickForOneObjectIsWarnedOf(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	r, err := at(t, srv.Addr, "").Check(trial.Within(t), candidate(1999*time.Millisecond))
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "one write a second") {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestABucketThatIsMissingIsExplainedOrMade(t *testing.T) {
	t.Parallel()
	srv := objectlab.StartGCS(t)
	c := service(t, srv.Addr)
	_, err := over(t, c, gcsstore.Options{}).Check(trial.Within(t), candidate(0))
	trial.Outcome(t, err, store.Permanent, "Options.Create", bucket)
	_, err = over(t, c, gcsstore.Options{}).CompareAndSwap(trial.Within(t), store.Write{Key: "a"})
	trial.Outcome(t, err, store.Permanent, "Options.Create")
	s := over(t, c, gcsstore.Options{Create: true, Project: "lab"})
	for range 2 {
		if _, err := s.Check(trial.Within(t), candidate(0)); err != nil {
			t.Fatal(err)
		}
	}
	trial.Must(t, s, store.Write{Key: "a"})
}

func TestVersionsAreWarnedOfAndServe(t *testing.T) {
	t.Parallel()
	srv := objectlab.StartGCS(t)
	c := service(t, srv.Addr)
	b := &storage.Bucket{Name: bucket, Versioning: &storage.BucketVersioning{Enabled: true}}
	if _, err := c.Buckets.Insert("lab", b).Context(trial.Within(t)).Do(); err != nil {
		t.Fatal(err)
	}
	s := at(t, srv.Addr, "")
	r, err := s.Check(trial.Within(t), candidate(0))
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "versions") {
		t.Fatalf("%+v, %v", r, err)
	}
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("first")})
	rev = trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("second")})
	_, err = at(t, srv.Addr, "").CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev - 1})
	trial.Outcome(t, err, store.Conflict)
	if err := (operator{t, c}).remove(s.Name("a")); err != nil {
		t.Fatal(err)
	}
	_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev})
	trial.Outcome(t, err, store.Conflict)
	if again := trial.Must(t, at(t, srv.Addr, ""), store.Write{Key: "a"}); again <= rev {
		t.Errorf("revision %d follows %d", again, rev)
	}
}

// The emulator knows no rights. The form of a denial is taken from the manual:
// a wrapper in the transport produces it.
func TestADenialIsExplained(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		for denied, right := range map[string]string{http.MethodGet: "storage.objects.list", http.MethodPost: "storage.objects.create"} {
			s := over(t, service(t, srv.Addr, func(rt http.RoundTripper) http.RoundTripper { return denying{rt, denied, status} }), gcsstore.Options{})
			_, err := s.Check(trial.Within(t), candidate(0))
			trial.Outcome(t, err, store.Permanent, right, bucket, strconv.Itoa(status))
			// An observer needs no right to write.
			_, err = s.Check(trial.Within(t), store.CheckRequest{})
			if (err == nil) != (denied == http.MethodPost) {
				t.Errorf("%s is denied by %d: an observer gets %v", denied, status, err)
			}
		}
	}
}

// denying denies the requests of a method.
type denying struct {
	http.RoundTripper
	method string
	status int
}

func (d denying) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != d.method {
		return d.RoundTripper.RoundTrip(r)
	}
	g := &trial.Gateway{Method: d.method, Body: worded}
	g.Instead(trial.Answer{Status: d.status, Code: "forbidden"})
	return g.RoundTrip(r)
}

// Twice in each heartbeat the store looks at every watched key. Nothing else
// reports a change here for an hour.
func TestAHeartbeatPacesTheLooks(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	other := at(t, srv.Addr, "")
	s := over(t, service(t, srv.Addr), gcsstore.Options{Every: time.Hour})
	if _, err := s.Check(trial.Within(t), store.CheckRequest{HeartbeatInterval: 100 * time.Millisecond, Key: "a"}); err != nil {
		t.Fatal(err)
	}
	heard := trial.Listen(t, s, "a")
	rev := trial.Must(t, other, store.Write{Key: "a", Value: []byte("v")})
	heard.Until("the write", func(e store.Entry) bool { return e.Revision == rev })
}

func TestOpenReportsTheFault(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	s, err := gcsstore.Open(trial.Within(t), srv.GCSURL(bucket+"/teams/a"))
	if err != nil {
		t.Fatal(err)
	}
	trial.Must(t, s, store.Write{Key: "reports"})
	if s.Name("reports") != "teams/a/reports" {
		t.Errorf("the object is %s", s.Name("reports"))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s, err = gcsstore.Open(trial.Within(t), srv.GCSURL("another"))
	if err != nil {
		t.Fatalf("a bucket that is yet to be made: %v", err)
	}
	defer s.Close() //nolint:errcheck // which returns nil
	if _, err := s.Check(trial.Within(t), candidate(0)); err != nil {
		t.Error(err)
	}
	_, err = gcsstore.Open(trial.Within(t), strings.Replace(srv.GCSURL("none"), "create=true", "create=false", 1))
	trial.Outcome(t, err, store.Permanent, "none", "create=true")
	srv.Kill()
	_, err = gcsstore.Open(trial.Within(t), srv.GCSURL(bucket))
	trial.Outcome(t, err, store.Transient)
}

// A bucket of unknown age may have been made again, while a leader of the
// former bucket does not know yet.
func TestABucketOfUnknownAgeIsWarnedOf(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	denied := func(rt http.RoundTripper) http.RoundTripper { return noRight{rt} }
	r, err := over(t, service(t, srv.Addr, denied), gcsstore.Options{}).Check(trial.Within(t), candidate(0))
	if err != nil || r.Age != 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "storage.buckets.get") {
		t.Errorf("by a user without the right: %+v, %v", r, err)
	}
	silent := &atomic.Int64{}
	silent.Store(1)
	unanswered := func(rt http.RoundTripper) http.RoundTripper { return noLook{rt, silent} }
	s := over(t, service(t, srv.Addr, unanswered), gcsstore.Options{Timeout: time.Second})
	_, err = s.Check(trial.Within(t), candidate(0))
	trial.Outcome(t, err, store.Transient, bucket)
	if r, err := s.Check(trial.Within(t), candidate(0)); err != nil || r.Age == 0 {
		t.Errorf("once there is an answer: %+v, %v", r, err)
	}
}

// noRight refuses looks at the bucket itself, as the service does to a user who
// lacks storage.buckets.get. The emulator knows no rights.
type noRight struct{ http.RoundTripper }

func (n noRight) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/b/"+bucket) {
		return n.RoundTripper.RoundTrip(r)
	}
	return &http.Response{
		StatusCode: http.StatusForbidden, Request: r, Body: io.NopCloser(strings.NewReader("{}")),
		Header: http.Header{"Content-Type": {"application/json"}},
	}, nil
}
