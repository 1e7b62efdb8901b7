package s3store_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/s3store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/objectlab"
)

// altered has a client change its requests before they are signed, as if the
// server read them differently.
func altered(change func(http.Header)) func(*s3.Options) {
	step := middleware.BuildMiddlewareFunc("Altered",
		func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (middleware.BuildOutput, middleware.Metadata, error) {
			if r, ok := in.Request.(*smithyhttp.Request); ok {
				change(r.Header)
			}
			return next.HandleBuild(ctx, in)
		})
	return func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error { return stack.Build.Add(step, middleware.After) })
	}
}

// A server that never receives the condition is like a provider that ignores
// it.
func TestAProviderThatIgnoresConditionsIsFoundOut(t *testing.T) {
	t.Parallel()
	srv, c := made(t)
	sound := at(t, srv.Addr, "")
	rev := trial.Must(t, sound, store.Write{Key: "a", Value: []byte("v")})
	for _, header := range []string{"If-None-Match", "If-Match"} {
		s := over(t, client(t, srv.Addr, root(), altered(func(h http.Header) { h.Del(header) })), s3store.Options{})
		_, err := trial.Check(t, s)
		trial.Outcome(t, err, store.Permanent, "both win")
	}
	if all := (operator{t, c}).objects(""); len(all) != 1 {
		t.Errorf("there are %v", all)
	}
	if e := trial.Get(t, sound, "a"); e.Revision != rev {
		t.Errorf("the record was changed: %+v", e)
	}
}

func TestABucketThatSuitsIsFoundFitOnce(t *testing.T) {
	t.Parallel()
	srv, c := made(t)
	var requests atomic.Int64
	s := over(t, client(t, srv.Addr, root(), altered(func(http.Header) { requests.Add(1) })), s3store.Options{})
	for range 2 {
		requests.Store(0)
		r, err := trial.Check(t, s)
		if err != nil || len(r.Warnings) != 0 || r.Forgetful || r.Expires {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if n := requests.Load(); n > 5 { // a list, two reads, a write that is refused, and the versions
		t.Errorf("the second time it sent %d requests", n)
	}
	if all := (operator{t, c}).objects(""); len(all) != 0 {
		t.Errorf("there are %v", all)
	}
}

func TestABucketThatIsMissingIsExplainedOrMade(t *testing.T) {
	t.Parallel()
	srv := objectlab.StartS3(t)
	c := client(t, srv.Addr, root())
	_, err := trial.Check(t, over(t, c, s3store.Options{}))
	trial.Outcome(t, err, store.Permanent, "Options.Create", bucket)
	_, err = over(t, c, s3store.Options{}).CompareAndSwap(trial.Within(t), store.Write{Key: "a"})
	trial.Outcome(t, err, store.Permanent, "Options.Create")
	s := over(t, c, s3store.Options{Create: true})
	for range 2 {
		if _, err := trial.Check(t, s); err != nil {
			t.Fatal(err)
		}
	}
	trial.Must(t, s, store.Write{Key: "a"})
}

// With versions, versitygw 1.8.0 takes an object that was deleted for one that
// is there: a candidate's renewal would bring back what an operator deleted.
func TestVersionsAreWarnedOfAndTriedAsWell(t *testing.T) {
	t.Parallel()
	srv, c := made(t, "--versioning-dir", t.TempDir())
	_, err := c.PutBucketVersioning(trial.Within(t), &s3.PutBucketVersioningInput{
		Bucket: aws.String(bucket), VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := at(t, srv.Addr, "")
	r, err := s.Check(trial.Within(t), store.CheckRequest{})
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "versions") {
		t.Fatalf("%+v, %v", r, err)
	}
	_, err = trial.Check(t, s)
	trial.Outcome(t, err, store.Permanent, "gone")
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("first")})
	rev = trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("second")})
	_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev - 1})
	trial.Outcome(t, err, store.Conflict)
}

// policies are the policies of the package's documentation, for a prefix.
func policies(candidate, observer string) string {
	return strings.NewReplacer("CANDIDATE", candidate, "OBSERVER", observer, "BUCKET", bucket).Replace(`{
  "Version": "2012-10-17",
  "Statement": [
    {"Effect": "Allow", "Principal": {"AWS": ["CANDIDATE", "OBSERVER"]}, "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::BUCKET"},
    {"Effect": "Allow", "Principal": {"AWS": ["CANDIDATE", "OBSERVER"]}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::BUCKET/leader/*"},
    {"Effect": "Allow", "Principal": {"AWS": ["CANDIDATE"]}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::BUCKET/leader/*"},
    {"Effect": "Allow", "Principal": {"AWS": ["CANDIDATE"]}, "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::BUCKET/leader/'check/*"}
  ]
}`)
}

// enroll makes a user of the server who may nothing.
func enroll(tb testing.TB, srv *objectlab.Server, name string) user {
	tb.Helper()
	u := user{name, name + "-secret"}
	out, err := exec.Command(srv.Program(), "admin", "--access", objectlab.Key, "--secret", objectlab.Secret, "--endpoint-url", srv.URL(),
		"create-user", "--access", u.key, "--secret", u.secret, "--role", "user").CombinedOutput()
	if err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return u
}

func TestTheRightsThatAreDocumentedSuffice(t *testing.T) {
	t.Parallel()
	srv, c := made(t)
	writer, reader, nobody := enroll(t, srv, "candidate"), enroll(t, srv, "observer"), enroll(t, srv, "nobody")
	if _, err := c.PutBucketPolicy(trial.Within(t), &s3.PutBucketPolicyInput{Bucket: aws.String(bucket), Policy: aws.String(policies("candidate", "observer"))}); err != nil {
		t.Fatal(err)
	}
	s := over(t, client(t, srv.Addr, writer), s3store.Options{})
	if r, err := trial.Check(t, s); err != nil || len(r.Warnings) != 0 {
		t.Fatalf("a candidate: %+v, %v", r, err)
	}
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	rev = trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("w"), Tombstone: true})

	observer := over(t, client(t, srv.Addr, reader), s3store.Options{})
	if _, err := observer.Check(trial.Within(t), store.CheckRequest{}); err != nil {
		t.Errorf("an observer: %v", err)
	}
	if e := trial.Get(t, observer, "a"); e.Revision != rev {
		t.Errorf("an observer reads %+v", e)
	}
	trial.ListenPattern(t, observer, ">").Until("the record", func(e store.Entry) bool { return e.Revision == rev })
	_, err := trial.Check(t, observer)
	trial.Outcome(t, err, store.Permanent, "s3:PutObject")
	_, err = observer.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev})
	trial.Outcome(t, err, store.Permanent, "s3:PutObject")

	foreign := over(t, client(t, srv.Addr, writer), s3store.Options{Prefix: "others"})
	_, err = trial.Check(t, foreign)
	trial.Outcome(t, err, store.Permanent, "s3:PutObject")
	stranger := over(t, client(t, srv.Addr, nobody), s3store.Options{})
	_, err = stranger.Check(trial.Within(t), store.CheckRequest{})
	trial.Outcome(t, err, store.Permanent, "s3:ListBucket")
	_, err = stranger.Get(trial.Within(t), "a")
	trial.Outcome(t, err, store.Permanent)
	wrong := over(t, client(t, srv.Addr, user{"candidate", "not-the-secret"}), s3store.Options{})
	_, err = wrong.Get(trial.Within(t), "a")
	trial.Outcome(t, err, store.Permanent)
}

func TestOrdinaryToolsShowTheRecord(t *testing.T) {
	t.Parallel()
	srv, c := made(t)
	s := at(t, srv.Addr, "")
	rev := trial.Must(t, s, store.Write{Key: "reports", Value: []byte(`{"holder":"host-1"}`), Tombstone: true})
	content, err := operator{t, c}.content("leader/reports")
	line, value, _ := strings.Cut(content, "\n")
	if err != nil || !strings.HasPrefix(line, fmt.Sprintf("leader/1 %d tombstone ", rev)) || value != `{"holder":"host-1"}` {
		t.Errorf("%q, %v", content, err)
	}
}

// Twice in each heartbeat the store looks at every watched key. Nothing else
// reports a change here for an hour.
func TestAHeartbeatPacesTheLooks(t *testing.T) {
	t.Parallel()
	srv, c := made(t)
	other := at(t, srv.Addr, "")
	s := over(t, client(t, srv.Addr, root()), s3store.Options{Every: time.Hour})
	if _, err := s.Check(trial.Within(t), store.CheckRequest{HeartbeatInterval: 100 * time.Millisecond, Key: "a"}); err != nil {
		t.Fatal(err)
	}
	heard := trial.Listen(t, s, "a")
	rev := uint64(0)
	for range 3 {
		rev = trial.Must(t, other, store.Write{Key: "a", Expected: rev, Value: []byte("v")})
		heard.Until("a write", func(e store.Entry) bool { return e.Revision == rev })
	}
	if err := (operator{t, c}).remove(s.Name("a")); err != nil {
		t.Fatal(err)
	}
	heard.Until("a foreign deletion", func(e store.Entry) bool { return e.Revision == 0 })
}

// An object that is encrypted by KMS has an ETag that resembles a digest of the
// content, and is none.
func TestTagsNeedNotBeDigests(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	swap := altered(func(h http.Header) {
		if tag := h.Get("If-Match"); tag != "" {
			h.Set("If-Match", backwards(tag))
		}
	})
	s := over(t, client(t, srv.Addr, root(), swap, func(o *s3.Options) { o.HTTPClient = opaque{o.HTTPClient} }), s3store.Options{})
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	for range 2 {
		if e := trial.Get(t, s, "a"); e.Revision != rev {
			t.Fatalf("it reads %+v", e)
		}
		rev = trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("w")})
	}
}

// opaque is a client that shows each ETag backwards.
type opaque struct{ s3.HTTPClient }

func (c opaque) Do(r *http.Request) (*http.Response, error) {
	res, err := c.HTTPClient.Do(r)
	if err == nil {
		res.Header.Set("ETag", backwards(res.Header.Get("ETag")))
	}
	return res, err
}

func backwards(tag string) string {
	b := []byte(strings.Trim(tag, `"`))
	for i := range len(b) / 2 {
		b[i], b[len(b)-1-i] = b[len(b)-1-i], b[i]
	}
	return `"` + string(b) + `"`
}

func TestOpenReportsTheFault(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	s, err := s3store.Open(trial.Within(t), srv.S3URL(bucket+"/teams/a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trial.Check(t, s); err != nil {
		t.Error(err)
	}
	trial.Must(t, s, store.Write{Key: "reports"})
	if s.Name("reports") != "teams/a/reports" {
		t.Errorf("the object is %s", s.Name("reports"))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s, err = s3store.Open(trial.Within(t), srv.S3URL("another"))
	if err != nil {
		t.Fatalf("a bucket that is yet to be made: %v", err)
	}
	defer s.Close() //nolint:errcheck // which returns nil
	if _, err := trial.Check(t, s); err != nil {
		t.Error(err)
	}
	_, err = s3store.Open(trial.Within(t), strings.Replace(srv.S3URL("none"), "create=true", "create=false", 1))
	trial.Outcome(t, err, store.Permanent, "none", "create=true")
	_, err = s3store.Open(trial.Within(t), strings.Replace(srv.S3URL(bucket), objectlab.Secret, "wrong", 1))
	trial.Outcome(t, err, store.Permanent)
	srv.Kill()
	_, err = s3store.Open(trial.Within(t), srv.S3URL(bucket))
	trial.Outcome(t, err, store.Transient)
}
