package security_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// With the rights of the tables everything works, and the server has nothing to
// deny.
func TestElectionNeedsNoMoreThanTheDocumentedRights(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{republishing, other} {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", kind, nodes), func(t *testing.T) {
				wholeElection(t, startLab(t, nodes, kind, nil), kind)
			})
		}
	}
}

// wholeElection elects, renews, fails over, resigns, and steps down when the
// operator asks, under an observer's eyes, in a bucket that the admin makes.
func wholeElection(t *testing.T, l *lab, kind string) {
	t.Helper()
	makeBucket(t, l.connect(admin), kind)
	where := func(c *leader.ElectionConfig) { c.JetStreamDomain = l.domain }
	a := join(t, l.connect(candidate), "a", where)
	a.leads()
	eye := observeWith(t, l.connect(observer), natsstore.Options{Domain: l.domain})
	eye.seesLeader("a")
	a.renews(3)
	// Only a's lease is to run out, and may do so before a crashes: b takes
	// over then, too.
	b := join(t, l.connect(candidate), "b", where, ttl(long))
	b.hears()
	a.crash()
	b.leads()
	eye.seesLeader("b")
	c := join(t, l.connect(candidate), "c", where, ttl(long))
	c.follows(b)
	b.renews(3)
	if err := b.ValidateToken(natslab.Within(t)); err != nil {
		t.Errorf("validation: %v", err)
	}
	b.resign()
	c.leads()
	eye.seesLeader("c")
	asks(t, l)
	b.leads()
	eye.seesLeader("b")
	if why := c.lost(); why != leader.ReasonSteppedDown {
		t.Errorf("c's reason is %q", why)
	}
	for _, err := range l.complaints() {
		t.Errorf("the server complained: %v", err)
	}
}

// lacking is a lab in which one role lacks one right, in a bucket that was
// made.
func lacking(t *testing.T, role, kind string, r right) *lab {
	t.Helper()
	l := startLab(t, 1, kind, map[string][]right{role: without(rights(t, role, kind), r)})
	makeBucket(t, l.connect("root"), kind)
	return l
}

// eachRight runs a check for each right of a role, in both kinds of buckets, on
// a server where the role lacks just that one. The check is the one that the
// table names.
func eachRight(t *testing.T, role string, checks map[string]func(*testing.T, *lab, right)) {
	t.Helper()
	for _, kind := range []string{republishing, other} {
		for _, r := range rights(t, role, kind) {
			t.Run(kind+"/"+r.String(), func(t *testing.T) {
				t.Parallel()
				check := checks[r.without]
				if check == nil {
					t.Fatalf("the table has %q, which no check is for", r.without)
				}
				check(t, lacking(t, role, kind, r), r)
			})
		}
	}
}

func TestCandidateNeedsEachOfItsRights(t *testing.T) {
	t.Parallel()
	eachRight(t, candidate, map[string]func(*testing.T, *lab, right){
		"Start fails":                   startFails,
		"hears late":                    hearsLate,
		"starts with a warning":         startsWithAWarning,
		"stays drained after a restart": staysDrained,
	})
}

// names is the part of a missing right that an error must contain: the subject,
// up to the part that the program chooses.
func (r right) names() string { return strings.TrimRight(strings.Split(r.subject, "*")[0], ">") }

func startFails(t *testing.T, l *lab, r right) {
	t.Helper()
	err := stand(t, l.connect(candidate), "a").Start(natslab.Within(t))
	if store.Classify(err) != store.Permanent || !strings.Contains(err.Error(), r.names()) {
		t.Errorf("Start: %v", err)
	}
}

// hearsLate: the candidate reads the record now and then instead of watching
// it.
func hearsLate(t *testing.T, l *lab, r right) {
	t.Helper()
	a := join(t, l.connect(candidate), "a")
	a.says(leader.NoteNotReady, r.names())
	a.leads()
}

func startsWithAWarning(t *testing.T, l *lab, r right) {
	t.Helper()
	a := join(t, l.connect(candidate), "a")
	a.says(leader.NoteWarning, r.names())
	a.leads()
}

// staysDrained: the candidate obeys, but no process can take the order, so that
// the next one obeys it, too.
func staysDrained(t *testing.T, l *lab, r right) {
	t.Helper()
	nc := l.connect(candidate)
	drain(t, l, "a")
	a := join(t, nc, "a", ttl(long))
	a.await("is drained", func() bool { return a.Status().Barred == leader.ReasonDrained && !a.IsLeader() })
	a.says(leader.NoteWarning, r.names())
	a.crash()
	// The order contains no process, so that this one need not differ from the
	// first.
	b := join(t, nc, "a", ttl(long))
	b.await("is drained", func() bool { return b.Status().Barred == leader.ReasonDrained })
}

// drain makes the operator drain an instance.
func drain(t *testing.T, l *lab, id string) {
	t.Helper()
	c, err := leader.NewControl(l.connect(operator), bucket, "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Drain(natslab.Within(t), id, "kernel"); err != nil {
		t.Error(err)
	}
}

func TestObserverNeedsEachOfItsRights(t *testing.T) {
	t.Parallel()
	eachRight(t, observer, map[string]func(*testing.T, *lab, right){
		"observes nothing":      observesNothing,
		"waits for a renewal":   waitsForARenewal,
		"observes all the same": waitsForARenewal,
	})
}

func observesNothing(t *testing.T, l *lab, r right) {
	t.Helper()
	a := join(t, l.connect(candidate), "a")
	a.leads()
	first := observe(t, l.connect(observer)).sees("anything", func(observation) bool { return true })
	if first.err == nil || store.Classify(first.err) != store.Permanent {
		t.Fatalf("the observer got %+v", first)
	}
	want := r.names()
	if r.subject == "$JS.API.STREAM.INFO.KV_"+bucket {
		want = "$JS.API.CONSUMER.CREATE.KV_" + bucket // it then takes the bucket for one that does not republish
	}
	if !strings.Contains(first.err.Error(), want) {
		t.Errorf("the error does not name %q: %v", want, first.err)
	}
}

func waitsForARenewal(t *testing.T, l *lab, _ right) {
	t.Helper()
	a := join(t, l.connect(candidate), "a")
	a.leads()
	observe(t, l.connect(observer)).seesLeader("a")
}

func TestViewerNeedsEachOfItsRights(t *testing.T) {
	t.Parallel()
	eachRight(t, viewer, map[string]func(*testing.T, *lab, right){
		"sees nothing":          seesNothing,
		"waits for renewals":    waitsForRenewals,
		"cannot read one group": cannotReadOneGroup,
		"sees all the same":     seesAllTheSame,
	})
}

func seesNothing(t *testing.T, l *lab, r right) {
	t.Helper()
	a := join(t, l.connect(candidate), "a")
	a.leads()
	first := view(t, l.connect(viewer), ">").sees("anything", func(observation) bool { return true })
	if first.err == nil || store.Classify(first.err) != store.Permanent || !strings.Contains(first.err.Error(), r.names()) {
		t.Fatalf("the viewer got %+v, which is to name %q", first, r.names())
	}
}

// waitsForRenewals: it gets an error that the initial state cannot be read, and
// learns of a group with its next renewal.
func waitsForRenewals(t *testing.T, l *lab, _ right) {
	t.Helper()
	a := join(t, l.connect(candidate), "a")
	a.leads()
	w, refused, leads := view(t, l.connect(viewer), ">"), false, false
	w.sees("that it may not read, and a leader", func(s observation) bool {
		if s.complete {
			t.Error("the viewer has seen all that there is")
		}
		refused = refused || s.err != nil && store.Classify(s.err) == store.Permanent
		leads = leads || s.info.ID == "a"
		return refused && leads
	})
}

func cannotReadOneGroup(t *testing.T, l *lab, r right) {
	t.Helper()
	seesAll(t, l, viewer, ">")
	_, err := openStore(t, l.connect(viewer), natsstore.Options{}).Get(natslab.Within(t), group)
	if store.Classify(err) != store.Permanent || !strings.Contains(err.Error(), r.names()) {
		t.Errorf("reading a group: %v", err)
	}
}

func seesAllTheSame(t *testing.T, l *lab, _ right) {
	t.Helper()
	seesAll(t, l, viewer, ">")
}

// seesAll demands that a user of a role hears of all that there is, and of a
// leader, and of no error.
func seesAll(t *testing.T, l *lab, role, pattern string) {
	t.Helper()
	a := join(t, l.connect(candidate), "a")
	a.leads()
	w, complete, leads := view(t, l.connect(role), pattern), false, false
	w.sees("all that there is", func(s observation) bool {
		if s.err != nil {
			t.Fatalf("the %s cannot see %q: %v", role, pattern, s.err)
		}
		complete, leads = complete || s.complete, leads || s.info.ID == "a"
		return complete && leads
	})
}

// The manifests name the rights that their programs need.
func TestTheRightsThatAManifestNamesSuffice(t *testing.T) {
	t.Parallel()
	for file, pattern := range map[string]string{
		"kubernetes/exporter.yaml": ">", "kubernetes/dash.yaml": ">", "kubernetes/proxy.yaml": group, "announce/announce.yaml": group,
	} {
		for _, kind := range []string{republishing, other} {
			t.Run(file+"/"+kind, func(t *testing.T) {
				t.Parallel()
				l := startLab(t, 1, kind, nil)
				makeBucket(t, l.connect("root"), kind)
				seesAll(t, l, roleOf(t, file), pattern)
				for _, err := range l.complaints() {
					t.Errorf("the server complained: %v", err)
				}
			})
		}
	}
}

// roleOf returns the role that a manifest names, whose rights suffice.
func roleOf(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`An? (\w+)'s rights (?:in NATS )?suffice: docs/operate/permissions\.md, (\w+)\.`).FindSubmatch(b)
	if len(said) != 3 || heading(string(said[1])) != "## "+string(said[2]) {
		t.Fatalf("%s describes the rights: %q", file, said)
	}
	return string(said[1])
}

// A person who is alerted that the exporter sees nothing looks for its rights.
func TestTheAlertOfABlindExporterLeadsToItsRights(t *testing.T) {
	t.Parallel()
	role := roleOf(t, "kubernetes/exporter.yaml")
	if text := section(t, "### ElectionObserverBlind"); !strings.Contains(text, "(permissions.md#"+role+")") {
		t.Errorf("the section does not lead to the rights of the %s: %s", role, text)
	}
}

func TestOperatorNeedsEachOfItsRights(t *testing.T) {
	t.Parallel()
	eachRight(t, operator, map[string]func(*testing.T, *lab, right){
		"cannot ask": cannotAsk, "asks all the same": asksAllTheSame, "cannot drain": cannotDrain,
	})
}

// asks makes the operator ask the leader to step down, and waits until another
// leads.
func asks(t *testing.T, l *lab) {
	t.Helper()
	c, err := leader.NewControl(l.connect(operator), bucket, "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h, err := c.StepDown(natslab.Within(t), group, "maintenance")
	if err != nil || h.To.ID == "" || h.To.ID == h.From.ID {
		t.Errorf("the operator's request: %+v, %v", h, err)
	}
}

func asksAllTheSame(t *testing.T, l *lab, r right) {
	t.Helper()
	a := join(t, l.connect(candidate), "a", ttl(long))
	a.leads()
	join(t, l.connect(candidate), "b", ttl(long)).follows(a)
	asks(t, l)
	l.isDenied(r.names())
}

func cannotAsk(t *testing.T, l *lab, r right) {
	t.Helper()
	a := join(t, l.connect(candidate), "a", ttl(long))
	a.leads()
	term := a.Term()
	err := stepDown(natslab.Within(t), openStore(t, l.connect(operator), natsstore.Options{}), "ann")
	if store.Classify(err) != store.Permanent || !strings.Contains(err.Error(), r.names()) {
		t.Errorf("asking: %v", err)
	}
	if err := a.ValidateToken(natslab.Within(t)); err != nil || a.Term() != term {
		t.Errorf("the leader: %v, in %v after %v", err, a.Term(), term)
	}
}

func cannotDrain(t *testing.T, l *lab, r right) {
	t.Helper()
	a := join(t, l.connect(candidate), "a", ttl(long))
	a.leads()
	c, err := leader.NewControl(l.connect(operator), bucket, "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Drain(natslab.Within(t), "a", "kernel")
	if store.Classify(err) != store.Permanent || !strings.Contains(err.Error(), r.names()) || !a.IsLeader() {
		t.Errorf("draining: %v", err)
	}
}

func TestAdminNeedsEachOfItsRights(t *testing.T) {
	t.Parallel()
	abilities := map[string]func(context.Context, jetstream.JetStream, string) error{
		"cannot make":    createBucket,
		"cannot inspect": inspectBucket,
		"cannot change":  changeBucket,
		"cannot delete": func(ctx context.Context, js jetstream.JetStream, _ string) error {
			return js.DeleteStream(ctx, "KV_"+bucket)
		},
	}
	for _, kind := range []string{republishing, other} {
		all := rights(t, admin, kind)
		for _, r := range all {
			t.Run(kind+"/"+r.String(), func(t *testing.T) {
				t.Parallel()
				able := abilities[r.without]
				if able == nil {
					t.Fatalf("the table has %q, which no check is for", r.without)
				}
				l := startLab(t, 1, kind, map[string][]right{admin: without(all, r), operator: renamed(all, admin, operator)})
				if r.without != "cannot make" {
					makeBucket(t, l.connect("root"), kind)
				}
				denied(t, l, admin, able, kind)
				if !strings.Contains(fmt.Sprint(l.complaints()), r.names()) {
					t.Errorf("the server's complaints: %v", l.complaints())
				}
				// With all rights, of a user of another name, it succeeds.
				if err := able(natslab.Within(t), natslab.JetStream(t, l.connect(operator)), kind); err != nil {
					t.Errorf("with all rights: %v", err)
				}
			})
		}
	}
}

// denied lets a role try a forbidden action, until the server complains, which
// is the only sign that the client gets.
func denied(t *testing.T, l *lab, role string, able func(context.Context, jetstream.JetStream, string) error, kind string) {
	t.Helper()
	js := natslab.JetStream(t, l.connect(role))
	ctx, cancel := context.WithCancel(natslab.Within(t))
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- able(ctx, js, kind) }()
	natslab.Eventually(t, "a denial", func(context.Context) error {
		if len(l.complaints()) == 0 {
			return errors.New("no complaint")
		}
		return nil
	})
	cancel()
	if err := <-result; err == nil {
		t.Error("it succeeded")
	}
}

func inspectBucket(ctx context.Context, js jetstream.JetStream, _ string) error {
	_, err := js.Stream(ctx, "KV_"+bucket)
	return err
}

func changeBucket(ctx context.Context, js jetstream.JetStream, kind string) error {
	if kind == other {
		_, err := js.UpdateStream(ctx, jetstream.StreamConfig{
			Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, MaxMsgsPerSubject: 1, AllowDirect: true,
			AllowRollup: true, DenyDelete: true, Discard: jetstream.DiscardNew, Duplicates: 2 * time.Minute, Description: "changed",
		})
		return err
	}
	_, err := js.UpdateStream(ctx, jetstream.StreamConfig{
		Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, MaxMsgsPerSubject: 1, AllowDirect: true,
		DenyDelete: true, DenyPurge: true, Discard: jetstream.DiscardNew, Description: "changed",
		RePublish: &jetstream.RePublish{Source: "$KV." + bucket + ".>", Destination: "leader." + bucket + ".>"},
	})
	return err
}

// renamed returns the rights with the inbox of another user.
func renamed(all []right, from, to string) []right {
	var rs []right
	for _, r := range all {
		r.subject = strings.Replace(r.subject, "_INBOX_"+from, "_INBOX_"+to, 1)
		rs = append(rs, r)
	}
	return rs
}

// further reads the rights that a role needs for something out of the ordinary.
func further(t *testing.T, role string) []right {
	t.Helper()
	var all []right
	for _, cells := range table(t, "## Further rights") {
		if cells[0] == role {
			all = append(all, right{"any", cells[1] == "publish", strings.Trim(cells[2], "`"), cells[4]})
		}
	}
	return all
}

func theRight(t *testing.T, role, subject string) right {
	t.Helper()
	for _, r := range further(t, role) {
		if r.subject == subject {
			return r
		}
	}
	t.Fatalf("no further right of the %s to %s", role, subject)
	return right{}
}

func TestCandidateThatMakesTheBucketNeedsTheRightTo(t *testing.T) {
	t.Parallel()
	auto := func(c *leader.ElectionConfig) { c.BucketAutoCreate = true }
	r := theRight(t, candidate, "$JS.API.STREAM.CREATE.KV_leaders")
	base := rights(t, candidate, republishing)
	with := startLab(t, 1, republishing, map[string][]right{candidate: append(base, r)})
	join(t, with.connect(candidate), "a", auto).leads()
	m := stand(t, startLab(t, 1, republishing, nil).connect(candidate), "a", auto)
	if err := m.Start(t.Context()); store.Classify(err) != store.Permanent || !strings.Contains(err.Error(), r.subject) {
		t.Errorf("Start: %v", err)
	}
}

func TestCandidateThatMakesRequestsNeedsTheRightTo(t *testing.T) {
	t.Parallel()
	r := theRight(t, candidate, "$KV.leaders._ctl.reports")
	base := rights(t, candidate, republishing)
	for _, l := range []*lab{
		startLab(t, 1, republishing, map[string][]right{candidate: append(base, r)}),
		startLab(t, 1, republishing, nil),
	} {
		makeBucket(t, l.connect("root"), republishing)
		nc := l.connect(candidate)
		a := join(t, nc, "a", ttl(long)) // a request is of one term
		a.leads()
		err := stepDown(natslab.Within(t), openStore(t, nc, natsstore.Options{}), "b")
		if err == nil {
			a.await("steps down", func() bool { return a.lost() == leader.ReasonSteppedDown })
			continue
		}
		if store.Classify(err) != store.Permanent || !strings.Contains(err.Error(), r.subject) || a.lost() == leader.ReasonSteppedDown {
			t.Errorf("asking: %v", err)
		}
	}
}

// Requests can be made without this library. `nats kv put` binds to the bucket
// first, for which it reads the configuration.
func TestOperatorMayMakeRequestsWithTheCommandLine(t *testing.T) {
	t.Parallel()
	put := func(ctx context.Context, js jetstream.JetStream, _ string) error {
		kv, err := js.KeyValue(ctx, bucket)
		if err == nil {
			_, err = kv.Put(ctx, "_ctl."+group, []byte(`{"op":"step-down","term":1}`))
		}
		return err
	}
	l := startLab(t, 1, republishing, nil)
	makeBucket(t, l.connect("root"), republishing)
	if err := put(natslab.Within(t), natslab.JetStream(t, l.connect(operator)), republishing); err != nil {
		t.Error(err)
	}
	info := right{"any", true, "$JS.API.STREAM.INFO.KV_leaders", "asks all the same"}
	denied(t, lacking(t, operator, republishing, info), operator, put, republishing)
}

// A user for all one-word groups of a bucket writes the subjects with * in
// place of the group's name. The control keys are two words, so that * does not
// let candidates write them.
func TestWildcardRightsServeManyGroupsAndNoControlKeys(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{republishing, other} {
		t.Run(kind, func(t *testing.T) {
			var all []right
			for _, r := range rights(t, candidate, kind) {
				r.subject = strings.ReplaceAll(r.subject, group, "*")
				all = append(all, r)
			}
			l := startLab(t, 1, kind, map[string][]right{candidate: all})
			makeBucket(t, l.connect("root"), kind)
			nc := l.connect(candidate)
			for _, name := range []string{"reports", "invoices"} {
				join(t, nc, "a", func(c *leader.ElectionConfig) { c.Group = name }).leads()
			}
			if got := l.complaints(); len(got) > 0 {
				t.Errorf("the server complained: %v", got)
			}
			err := stepDown(natslab.Within(t), openStore(t, nc, natsstore.Options{}), "a")
			if store.Classify(err) != store.Permanent || !strings.Contains(err.Error(), "$KV.leaders._ctl.reports") {
				t.Errorf("a request: %v", err)
			}
		})
	}
}

// In a bucket that republishes, an observer that is told the subjects needs no
// right to publish.
func TestObserverThatMayPublishNothingSeesEachChange(t *testing.T) {
	t.Parallel()
	r := right{"any", false, "leader.leaders.reports", ""}
	l := startLab(t, 1, republishing, map[string][]right{observer: {r}})
	makeBucket(t, l.connect("root"), republishing)
	nc := l.connect(observer)
	w := observeWith(t, nc, natsstore.Options{Republished: "leader.leaders."})
	a := join(t, l.connect(candidate), "a")
	w.seesLeader("a")
	b := join(t, l.connect(candidate), "b")
	b.hears()
	b.succeeds(a)
	// With a gone, too: it may take the vacancy before the watcher has judged
	// the lease for itself.
	a.crash()
	w.seesLeader("b")
	b.crash()
	w.sees("nobody", func(s observation) bool {
		return s.err == nil && s.info.ID == "" && s.info.Reason == leader.ReasonExpired
	})
	if err := nc.PublishMsg(&nats.Msg{Subject: "leader.leaders.reports"}); err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "a denial", func(context.Context) error {
		if !strings.Contains(fmt.Sprint(l.complaints()), "leader.leaders.reports") {
			return errors.New("none")
		}
		return nil
	})
}
