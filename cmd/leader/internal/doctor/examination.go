package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/bucket"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/rights"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// An examination is one run of the doctor. It belongs to one goroutine. The
// tester goes by the last error of the connection, which must be its own.
type examination struct {
	cmd      Command
	s        *app.Session
	tester   *rights.Tester
	scope    rights.Scope
	findings finding.List
}

// newExamination takes in what is known before anything is asked. A store
// elsewhere than on NATS has no rights that could be tried without being used,
// and gets no tester.
func newExamination(c Command, s *app.Session) *examination {
	c.Heartbeat = cmp.Or(c.Heartbeat, c.TTL/3)
	if s.Elsewhere() != nil {
		return &examination{cmd: c, s: s, scope: rights.Scope{Group: c.Group}}
	}
	inbox := cmp.Or(s.NC.Opts.InboxPrefix, strings.TrimSuffix(nats.InboxPrefix, "."))
	return &examination{cmd: c, s: s, tester: rights.NewTester(s.NC), scope: rights.Scope{
		Bucket: s.Bucket, Group: c.Group, Instance: c.Instance, API: s.API(), Inbox: inbox,
		Republish: "leader." + s.Bucket + ".", // until the bucket's configuration is known
	}}
}

// run makes all checks. It fails only if there is no server to ask.
//
// Without a server each of them would fail in the same words. The order follows
// the dependencies: the bucket gives the server's clock, where it republishes,
// and whether there is a group whose rights can be tried.
func (e *examination) run(ctx context.Context) error {
	if st := e.s.Elsewhere(); st != nil {
		e.elsewhere(ctx, st)
		return nil
	}
	if err := e.connection(ctx); err != nil {
		return err
	}
	e.jetStream(ctx)
	st, err := e.s.NewStore(natsstore.Options{Timeout: e.cmd.Timeout})
	if err != nil {
		return fmt.Errorf("%w: --bucket: %w", app.ErrUsage, err)
	}
	defer st.Close()
	i := e.bucket(ctx)
	e.sync(ctx, i.Info)
	e.clock(i)
	if i.Info == nil && e.scope.Group == "" {
		e.scope.Group = madeUp
	} else if e.scope.Group == "" {
		e.scope.Group = e.someGroup(ctx, st)
	}
	e.roundTrip(ctx, st, i.Info != nil)
	e.roles(ctx, i)
	if i.Info != nil {
		e.paused(ctx, st)
	}
	if i.Info != nil && e.cmd.Group != "" {
		e.group(ctx, st)
	}
	return nil
}

// madeUp is the group whose rights are tried if there is none. Rights to one
// group alone do not cover it: their user names the group.
const madeUp = "leader-doctor"

// limited bounds one examination.
func (e *examination) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, e.cmd.Timeout)
}

// connection makes sure that a server answers, and reports its cluster. A
// cluster of which one address is known is a warning: elections work until just
// that server is gone, although others could serve. Of the others nothing else
// is seen, not even the version.
func (e *examination) connection(ctx context.Context) error {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	// A ping and its answer: an open connection does not prove that the server
	// answers.
	if err := e.s.NC.FlushWithContext(ctx); err != nil {
		return err
	}
	nc, l := e.s.NC, &e.findings
	where := fmt.Sprintf("connected to server %q at %s", nc.ConnectedServerName(), e.s.URL)
	switch cluster := nc.ConnectedClusterName(); {
	case cluster == "":
		l.Add("connection", finding.OK, "", "%s, which has no cluster", where)
	case len(nc.Servers()) == 1:
		l.Add("connection", finding.Warn, "name more servers in --server, and let the servers advertise themselves",
			"%s, in cluster %q, of which no other server is known here: a program that knows one address is cut off with that server", where, cluster)
	default:
		l.Add("connection", finding.OK, "", "%s, in cluster %q; %d addresses of servers are known", where, cluster, len(nc.Servers()))
	}
	judgeVersion(l, nc.ConnectedServerVersion())
	return nil
}

// jetStream asks for the state of the account. It tries the right to ask first:
// the server does not answer a request that it denies, and a candidate without
// that right would look as if its JetStream were down.
func (e *examination) jetStream(ctx context.Context) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	l, right := &e.findings, e.scope.AccountRight()
	has, err := e.tester.Has(ctx, right)
	if err == nil && !has {
		l.Add("jetstream", finding.Info, "", "not asked: the user has no permission to %v, and needs none for elections", right)
		return
	}
	var info *jetstream.AccountInfo
	js, err := e.s.JetStream()
	if err == nil {
		info, err = js.AccountInfo(ctx)
	}
	disabled := errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
	switch {
	case disabled && e.s.API() != jetstream.DefaultAPIPrefix && answers(ctx, js, e.s.Bucket):
		l.Add("jetstream", finding.Info, "", "the account has no JetStream, and imports the API %q of the bucket's account: its limits are unknown", e.s.API())
	case disabled:
		l.Add("jetstream", finding.Fail, "enable it: jetstream {} in the server's configuration, and for the account", "JetStream is not enabled: %v", err)
	case err != nil:
		l.Add("jetstream", finding.Fail, "look at the servers' logs; a cluster needs a majority of them", "JetStream does not answer: %v", err)
	default:
		e.account(info)
	}
}

// answers reports whether a bucket's configuration can be read.
func answers(ctx context.Context, js jetstream.JetStream, name string) bool {
	_, err := js.Stream(ctx, "KV_"+name)
	return err == nil
}

// account warns of an account that is full to nine tenths: a full account
// refuses the renewals of all its leaders.
func (e *examination) account(info *jetstream.AccountInfo) {
	used, most := info.Store, info.Limits.MaxStore
	switch {
	// Divided first: the product of a large limit would not fit.
	case most > 0 && used > uint64(most)/10*9:
		e.findings.Add("jetstream", finding.Warn, "raise the limit, or delete what is not needed", "the account has used %d of its %d bytes on files; a full account refuses renewals", used, most)
	case most > 0:
		e.findings.Add("jetstream", finding.OK, "", "JetStream is enabled; the account has used %d of its %d bytes on files", used, most)
	default:
		e.findings.Add("jetstream", finding.OK, "", "JetStream is enabled, without a limit of the account on files")
	}
}

// bucket judges the bucket as leader bucket check does, and takes in where it
// republishes: that decides which subjects an observer subscribes to.
func (e *examination) bucket(ctx context.Context) *bucket.Inspection {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	i := bucket.Inspect(ctx, e.s, e.tester, e.cmd.TTL)
	e.findings = append(e.findings, i.Findings...)
	if i.Info != nil {
		e.scope.Republish = ""
		if r := i.Info.Config.RePublish; r != nil {
			e.scope.Republish = strings.TrimSuffix(r.Destination, ">")
		}
	}
	return &i
}

// clock compares the clocks, which no election does. Hence it is a warning at
// most. The server reports its time with the bucket's configuration, at some
// instant between the request and the answer. Only what half of that time
// cannot explain counts.
func (e *examination) clock(i *bucket.Inspection) {
	const allowed = time.Second
	harmless := "Elections compare no wall clocks, only how fast clocks run (ClockDrift, 10 %), so that this costs no safety; times in logs and histories are off by it."
	if i.Info == nil || i.Info.TimeStamp.IsZero() {
		e.findings.Add("clock", finding.Info, "", "the server's clock is unknown: the server returns the time with the bucket's configuration. %s", strings.Replace(harmless, "so that this", "so that a difference", 1))
		return
	}
	between := i.Received.Sub(i.Sent)
	// As if the server had read its clock halfway.
	off := i.Sent.Add(between / 2).Sub(i.Info.TimeStamp)
	status, fix := finding.OK, ""
	if off.Abs()-between/2 > allowed {
		status, fix = finding.Warn, "synchronize the clocks of both, by NTP or chrony"
	}
	direction := "ahead of"
	if off < 0 {
		direction = "behind"
	}
	e.findings.Add("clock", status, fix, "this host's clock is %v %s the server's (± %v). %s",
		short(off.Abs()), direction, short(between/2), harmless)
}

// short rounds a time for people.
func short(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// someGroup returns a group of the bucket, so that rights are tried where they
// will be used. A user who may not look at all groups gets the made-up one.
func (e *examination) someGroup(ctx context.Context, st store.Store) string {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	if groups, err := leader.SnapshotWithStore(ctx, st, ">"); err == nil && len(groups) > 0 {
		return groups[0].Group
	}
	return madeUp
}

// roundTrip measures writes that are refused: they take the way of a renewal to
// the leader of the stream and back. They leave nothing behind. They do not
// include the further waits of an accepted write, and the finding states that.
// Without the right to write there would be no answer to measure; a ping ends
// at the next server, and may be much faster.
func (e *examination) roundTrip(ctx context.Context, st store.Store, there bool) {
	what, trip := "refused writes (an accepted write also waits for the other replicas, and for the disks where they sync always)", func(ctx context.Context) error {
		return refused(ctx, st, e.scope.Group)
	}
	if !there || !e.mayWrite(ctx) {
		what, trip = "pings of the server next to here (the leader of the stream may be farther: that takes the right to write)", e.s.NC.FlushWithContext
	}
	e.measure(ctx, what, trip)
}

// mayWrite reports whether the user is known to have the right to write the
// record.
func (e *examination) mayWrite(ctx context.Context) bool {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	has, err := e.tester.Has(ctx, e.scope.WriteRight())
	return err == nil && has
}

// timed makes one trip, and returns how long it took.
func (e *examination) timed(ctx context.Context, trip func(context.Context) error) (time.Duration, error) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	begin := time.Now()
	err := trip(ctx)
	return time.Since(begin), err
}

// judgeTrips: a renewal should be done well before the next is due, and must be
// before the trust window closes. It goes by the longest, since one renewal
// that comes too late ends a term. That is a failure if a renewal that is sent
// one heartbeat after the last would come back after the window, and a warning
// if one that fails has little room to be repeated.
func (e *examination) judgeTrips(what string, median, most time.Duration) {
	ttl, beat := e.cmd.TTL, e.cmd.Heartbeat
	window := ttl - time.Duration(float64(ttl)*leader.DefaultClockDrift)
	text := fmt.Sprintf("median %v, longest %v of %d %s; a heartbeat each %v, trusted for %v", short(median), short(most), e.cmd.Rounds, what, beat, window)
	switch {
	case most >= window-beat:
		e.findings.Add("round-trip", finding.Fail, fmt.Sprintf("a TTL of at least %v, with a heartbeat of a third", (6*most).Round(time.Millisecond)), "%s: terms will be lost", text)
	case most > beat/2:
		e.findings.Add("round-trip", finding.Warn, fmt.Sprintf("a TTL of at least %v, with a heartbeat of a third", (6*most).Round(time.Millisecond)), "%s: little room for a renewal that fails", text)
	default:
		e.findings.Add("round-trip", finding.OK, "", "%s", text)
	}
}

// roles reports which roles the user can play in the group. All roles are
// tried, since the user of the command may have any: only --role names the
// roles that a user should have. The server answers for the rights also without
// JetStream or the bucket, where nobody can play any role.
func (e *examination) roles(ctx context.Context, i *bucket.Inspection) {
	can, good := "can be", finding.OK
	if i.Missing() || i.Info == nil && !errors.Is(i.Err, store.ErrPermanent) {
		can, good = "has the permissions of", finding.Info
	}
	for _, role := range e.scope.Roles() {
		e.role(ctx, role, slices.Contains(e.cmd.Role, role.Name), can, good)
	}
}

// role reports whether the user can play a role. A missing right is a failure
// only if the role was wanted: an observer that cannot write is as it should
// be. Rights without which the role is played worse are a warning in any case,
// since a user with nearly all rights is mostly meant to have all. A right that
// cannot be tried without harm is reported, and not counted.
//
// can is what the rights are good for, and good the status if all are there.
func (e *examination) role(ctx context.Context, role rights.Role, wanted bool, can string, good finding.Status) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	missing, err := e.tester.Missing(ctx, role.Needs)
	less, err2 := e.tester.Missing(ctx, role.Helps)
	l, of, name := &e.findings, cmp.Or(role.Of, fmt.Sprintf("group %q", e.scope.Group)), "a "+role.Name
	if strings.ContainsAny(role.Name[:1], "aeiou") {
		name = "an " + role.Name
	}
	status := finding.Info
	if wanted {
		status = finding.Fail
	}
	switch {
	case err != nil || err2 != nil:
		l.Add(role.Name, finding.Fail, "", "the rights could not be tried: %v", errors.Join(err, err2))
	case len(missing) > 0:
		fix := ""
		if wanted {
			fix = "grant them; docs/operate/permissions.md lists the rights of each role"
		}
		l.Add(role.Name, status, fix, "the user cannot be %s of %s: no permission to %s", name, of, list(missing))
	case len(less) > 0:
		l.Add(role.Name, finding.Warn, "grant it; docs/operate/permissions.md lists the rights of each role", "the user %s %s of %s, but %s: no permission to %s", can, name, of, role.Lacks, list(less))
	case len(role.Untried) > 0:
		l.Add(role.Name, good, "", "the user %s %s of %s; not tried, since it cannot be without harm: %s", can, name, of, list(role.Untried))
	default:
		l.Add(role.Name, good, "", "the user %s %s of %s", can, name, of)
	}
}

// list names rights in a sentence.
func list(all []rights.Right) string {
	var texts []string
	for _, r := range all {
		texts = append(texts, r.String())
	}
	return strings.Join(texts, ", ")
}
