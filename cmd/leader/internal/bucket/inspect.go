// Package bucket is leader bucket: it makes buckets for elections, and reports
// what is unsafe about existing buckets.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/rights"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// An Inspection is what is known of a bucket.
type Inspection struct {
	// Info is nil if the bucket does not exist or its configuration cannot be
	// read; Err is then the cause.
	Info *jetstream.StreamInfo
	Err  error
	// Sent and Received are when the request for Info left and when the answer
	// came.
	Sent, Received time.Time
	// Findings are the consequences of the bucket's configuration for
	// elections.
	Findings finding.List
}

// Missing reports whether there is no such bucket.
func (i *Inspection) Missing() bool { return errors.Is(i.Err, jetstream.ErrStreamNotFound) }

// Inspect reads the configuration of the session's bucket and judges it for
// leases of that length. Without its configuration a bucket is not judged at
// all: a store would only report that it cannot see the bucket.
func Inspect(ctx context.Context, s *app.Session, tester *rights.Tester, ttl time.Duration) Inspection {
	var i Inspection
	if i.Err = i.read(ctx, s, tester); i.Err != nil {
		i.unread(s.Bucket)
		return i
	}
	st, err := s.NewStore(natsstore.Options{})
	if err != nil {
		i.Err = err
		i.unread(s.Bucket)
		return i
	}
	defer st.Close()
	report, err := st.Check(ctx, store.CheckRequest{TTL: ttl})
	i.judge(report, err, ttl)
	i.mirrors(ctx, s, tester)
	return i
}

// mirrors warns of streams that answer reads of the bucket beside it, of any
// age. The bucket does not know them, so all streams are looked through, by a
// user who may. Otherwise nothing is reported: a candidate warns of the mirror
// that answers it.
func (i *Inspection) mirrors(ctx context.Context, s *app.Session, tester *rights.Tester) {
	if has, err := tester.Has(ctx, rights.Scope{Bucket: s.Bucket, API: s.API()}.ListRight()); err != nil || !has {
		return
	}
	js, err := s.JetStream()
	if err != nil {
		return
	}
	streams := js.ListStreams(ctx)
	for info := range streams.Info() {
		c := &info.Config
		if c.Mirror == nil || c.Mirror.Name != i.Info.Config.Name || c.Mirror.External != nil || !c.MirrorDirect {
			continue
		}
		i.Findings.Add("mirror", finding.Warn, fmt.Sprintf("nats stream rm %s, then nats stream add %s --source %s", c.Name, c.Name, i.Info.Config.Name),
			"stream %q mirrors the bucket and answers reads of it, with records of any age: candidates and commands read again until the bucket itself answers, and a stream with a source in its place would not answer", c.Name)
	}
	if err := streams.Err(); err != nil {
		i.Findings.Add("mirror", finding.Info, "", "streams that mirror the bucket were not looked for: %s", app.Words(err))
	}
}

// read asks for the bucket's configuration. It tries the right first, since the
// server does not answer a request that it denies, and the wait would look like
// a server that is down. The times of the request and of the answer are kept
// for callers that compare clocks.
func (i *Inspection) read(ctx context.Context, s *app.Session, tester *rights.Tester) error {
	right := rights.Scope{Bucket: s.Bucket, API: s.API()}.InfoRight()
	switch has, err := tester.Has(ctx, right); {
	case err != nil:
		return err
	case !has:
		return fmt.Errorf("%w: the configuration of bucket %q cannot be read: the user needs permission to %v", store.ErrPermanent, s.Bucket, right)
	}
	js, err := s.JetStream()
	if err != nil {
		return err
	}
	i.Sent = time.Now()
	stream, err := js.Stream(ctx, streamOf(s.Bucket))
	i.Received = time.Now()
	switch {
	case err == nil:
		i.Info = stream.CachedInfo()
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: bucket %q does not exist: leader bucket create %s makes it: %w", store.ErrPermanent, s.Bucket, s.Bucket, err)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: JetStream does not answer; it may be disabled for this account or server, or starting: %w", store.ErrTransient, err)
	}
	return fmt.Errorf("bucket %q: %w", s.Bucket, err)
}

func streamOf(bucket string) string { return "KV_" + bucket }

// unread is the finding about a bucket that could not be read. That it may not
// be is a warning, since elections do without: a candidate then cools down
// before it leads. That it is not there is a failure.
func (i *Inspection) unread(name string) {
	switch {
	case i.Missing():
		i.Findings.Add("bucket", finding.Fail, "leader bucket create "+name, "bucket %q does not exist", name)
	case errors.Is(i.Err, store.ErrPermanent):
		i.Findings.Add("bucket", finding.Warn, "grant it, or ask somebody who has it", "%s", app.Words(i.Err))
	default:
		i.Findings.Add("bucket", finding.Fail, "", "%s", app.Words(i.Err))
	}
}

// judge turns a report of the store into findings, each with what to do about
// it.
func (i *Inspection) judge(report store.Report, refused error, ttl time.Duration) {
	c := &i.Info.Config
	if refused != nil {
		for line := range strings.Lines(app.Words(refused)) {
			i.Findings.Add("bucket", finding.Fail, "use another bucket: leader bucket create NAME", "%s", strings.TrimSpace(line))
		}
		return
	}
	fixes := fixesFor(c, clustered(i.Info))
	for n, warning := range report.Warnings {
		fix := "make another bucket: leader bucket create NAME"
		if len(fixes) == len(report.Warnings) { // the table below and the store agree
			fix = fixes[n]
		}
		i.Findings.Add("bucket", finding.Warn, fix, "%s", warning)
	}
	if len(report.Warnings) == 0 {
		i.Findings.Add("bucket", finding.OK, "", "bucket %q is as elections want it: %s storage, nothing expires, no rollups and no deletions", bucketOf(c), strings.ToLower(c.Storage.String()))
	}
	i.expiry(ttl)
	i.replicas()
}

// expiry reports for which leases a bucket that expires its records was judged.
func (i *Inspection) expiry(ttl time.Duration) {
	if age := i.Info.Config.MaxAge; age > 0 && ttl > 0 {
		i.Findings.Add("expiry", finding.Info, "", "records expire after %v: the bucket is for leases of at most %v, and was judged for %v (--ttl)", age, age, ttl)
	}
}

func bucketOf(c *jetstream.StreamConfig) string { return strings.TrimPrefix(c.Name, "KV_") }

// clustered reports whether the stream's server belongs to a cluster. The
// cluster's name is empty on a single server.
func clustered(info *jetstream.StreamInfo) bool {
	return info.Cluster != nil && info.Cluster.Name != ""
}

// replicas judges the state of the bucket's servers. A server that is not
// current is a warning as long as there is a majority. The store warns if there
// are too few.
func (i *Inspection) replicas() {
	c, l := i.Info.Config, &i.Findings
	if !clustered(i.Info) {
		l.Add("replicas", finding.Info, "three servers in a cluster survive the loss of one", "one server without a cluster keeps the bucket: while it is down nobody is elected or kept")
		return
	}
	var away []string
	for _, peer := range i.Info.Cluster.Replicas {
		if peer.Offline || !peer.Current {
			away = append(away, peer.Name)
		}
	}
	switch cluster := i.Info.Cluster; {
	case cluster.Leader == "":
		l.Add("replicas", finding.Fail, "nats stream info "+c.Name, "the stream has no leader among its servers: nothing can be written")
	case len(away) > 0:
		l.Add("replicas", finding.Warn, "nats stream info "+c.Name, "not current or offline: %s; of %d replicas %d must be up", strings.Join(away, ", "), c.Replicas, c.Replicas/2+1)
	case c.Replicas > 2:
		l.Add("replicas", finding.OK, "", "%d replicas in cluster %q, all current; %d must be up; %q leads the stream", c.Replicas, cluster.Name, c.Replicas/2+1, cluster.Leader)
	}
}
