package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// maxRecordMessage is what a record, its subject and its headers may need in
// the stream.
const maxRecordMessage = store.MaxValue + 1<<10

// Check implements [store.Checker]: it reads the bucket's configuration and
// refuses a configuration that makes elections unsafe or impossible. It also
// refuses a missing permission to read or write the key. If the options request
// it, Check first makes a missing bucket. A user who may not read the
// configuration gets a warning, and the bucket counts as forgetful.
//
// It also warns of a connection that gives up by itself, and refuses a server
// outside of a cluster that has no JetStream.
func (s *Store) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	report, err := s.examine(ctx, req)
	for _, stream := range s.known.copiesSeen() {
		report.Warnings = append(report.Warnings, s.mirrored(stream))
	}
	if w := s.givesUp(); w != "" && err == nil {
		report.Warnings = append(report.Warnings, w)
	}
	return report, err
}

// givesUp warns of a connection that closes permanently by itself, which is the
// default of nats.go. Elections then end.
func (s *Store) givesUp() string {
	when := s.patience()
	if when == "" {
		return ""
	}
	return fmt.Sprintf("The NATS connection gives up %s: it is then permanently closed, and elections on it end. Connect with nats.MaxReconnects(-1).", when)
}

// patience describes when the connection gives up. It returns "" if the
// connection never does.
func (s *Store) patience() string {
	o := s.nc.Opts
	switch {
	case !o.AllowReconnect:
		return "as soon as it breaks, since it was made with NoReconnect"
	case o.MaxReconnect >= 0:
		return fmt.Sprintf("after %d attempts to reconnect, %v apart", o.MaxReconnect, o.ReconnectWait)
	default:
		return ""
	}
}

// examine is Check without the warning about the connection.
func (s *Store) examine(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.sendable(ctx); err != nil {
		return store.Report{}, err
	}
	before := s.connReport()
	info, err := s.infoOrCreate(ctx)
	if err != nil {
		if denied := s.denied(err, before, s.names.Info()); denied != nil {
			if _, planned := s.presentPlan(); !planned && s.opts.Republished == "" {
				s.consumes.Store(s.assume(ctx, &subscription{pattern: req.Key}).republished == "")
			}
			// Forgetful, since it is the worst that the bucket may be: a
			// cool-down too many costs a wait, one too few may cost a second
			// leader.
			return store.Report{Warnings: []string{s.unread(denied)}, Forgetful: true}, s.mayUse(ctx, req)
		}
		if denied := s.denied(err, before, s.names.Create()); denied != nil {
			return store.Report{}, fmt.Errorf("%w: bucket %q is missing, and may not be made: the user needs permission to publish to %s: %w",
				store.ErrPermanent, s.names.Bucket, s.names.Create(), denied)
		}
		return store.Report{}, s.checkError(ctx, before, err)
	}
	s.consumes.Store(s.republished(info) == "")
	report, err := s.judge(&info.Config, info.Cluster, req)
	report.Age = age(info)
	if err == nil {
		err = s.mayUse(ctx, req)
	}
	return report, err
}

// age is how long the bucket has existed. Both instants are of the servers'
// clocks, for ours may differ. A bucket from the future (a clock was set back)
// counts as new, since that costs a wait, and the opposite could cost a leader.
// Its age is 1 ns and not 0, by which the age would be unknown and nobody wait.
func age(info *jetstream.StreamInfo) time.Duration {
	if info.Created.IsZero() || info.TimeStamp.IsZero() { // of a server before 2.10
		return 0
	}
	return max(info.TimeStamp.Sub(info.Created), 1)
}

// mayUse finds out whether the user may read the keys and write theirs. Without
// the right to read, a candidate would wait for another's write. Writing is
// tried with a revision that no register has: the server refuses it, for the
// revision or for the user. Any other failure is left to the election, which
// meets it again: a server that is restarting must not end a Start.
func (s *Store) mayUse(ctx context.Context, req store.CheckRequest) error {
	if req.Key == "" {
		return nil
	}
	for _, key := range append([]string{req.Key}, req.Reads...) {
		_, err := s.readUntil(ctx, key, s.read, func(context.Context, store.Entry) bool { return true })
		if errors.Is(err, store.ErrPermanent) {
			return err
		}
		if copied, is := errors.AsType[wire.CopyError](err); is {
			return s.neverItself(key, copied)
		}
	}
	_, err := s.CompareAndSwap(ctx, store.Write{Key: req.Key, Expected: wire.Impossible})
	if errors.Is(err, store.ErrPermanent) {
		return err
	}
	if errors.Is(err, store.ErrConflict) {
		for _, key := range req.Reads {
			s.probe(ctx, req.Key, key)
		}
	}
	return nil // the rest shows, or passes, by itself
}

// neverItself refuses a bucket for which mirrors answered all the time.
func (s *Store) neverItself(key string, by wire.CopyError) error {
	return fmt.Errorf("%w: bucket %q never answers a read of key %q itself: %s", store.ErrPermanent, s.names.Bucket, key, s.mirrored(by.Stream))
}

func (s *Store) unread(denied error) string {
	return fmt.Sprintf("The configuration of bucket %q could not be read, so that nothing is known of its expiry, storage and limits, and elections cool down before they promote:"+
		" the user needs permission to publish to %s (%v).", s.names.Bucket, s.names.Info(), denied)
}

// judge reports what a stream's configuration means for elections. Warnings are
// text for people. Other fields of the report direct the election itself:
// whether the bucket forgets, or drops what it holds.
func (s *Store) judge(c *jetstream.StreamConfig, cluster *jetstream.ClusterInfo, req store.CheckRequest) (store.Report, error) {
	if err := s.refuse(c, req); err != nil {
		return store.Report{}, err
	}
	var r store.Report
	warn := func(when bool, format string, args ...any) {
		if when {
			r.Warnings = append(r.Warnings, fmt.Sprintf("Bucket %q "+format, append([]any{s.names.Bucket}, args...)...))
		}
	}
	// A server outside of a cluster reports an empty cluster name.
	clustered := cluster != nil && cluster.Name != ""
	async := c.PersistMode == jetstream.AsyncPersistMode
	dropsOldest := c.Discard == jetstream.DiscardOld && (c.MaxBytes > 0 || c.MaxMsgs > 0)

	warn(c.MaxAge > 0, "expires records %v after their last write, by the server's wall clock: a clock that leaps ends a leader's lease early."+
		" Elections cool down before they promote, unless a leader hands over; a bucket without TTL needs no such wait.", c.MaxAge)
	warn(c.MaxAge > 0 && c.SubjectDeleteMarkerTTL == 0, "leaves no markers when a record expires: watches do not report it."+
		" Set a limit marker TTL (`nats kv add --marker-ttl`), or use no TTL.")
	warn(c.Storage == jetstream.MemoryStorage, "is kept in memory: a restart of its servers forgets leaders and terms."+
		" Elections cool down before they promote; file storage needs no such wait.")
	warn(async, "acknowledges writes before they are in a file (persist_mode async), whatever its server's sync_interval is: the death of that server's process forgets leaders and terms."+
		" Elections cool down before they promote; the default mode needs no such wait.")
	warn(clustered && c.Replicas == 1, "has one replica in a cluster: no leader can be elected or kept while that server is down."+
		" Where the cluster has three servers, use three: `nats stream edit %s --replicas 3`.", s.names.Stream)
	warn(clustered && c.Replicas == 2, "has two replicas in a cluster: no leader can be elected or kept while either of their servers is down."+
		" Where the cluster has three servers, use three: `nats stream edit %s --replicas 3`.", s.names.Stream)
	if wanted := s.opts.Create; wanted != nil && wanted.Replicas != 0 {
		warn(c.Replicas != wanted.Replicas, "has %d replicas and not %d, as was asked for: it existed. Change it by `nats stream edit %s --replicas %d`.",
			c.Replicas, wanted.Replicas, s.names.Stream, wanted.Replicas)
	}
	warn(c.AllowRollup && !c.DenyPurge, "allows rollups: a candidate that may write only its own key can erase every key with the header Nats-Rollup."+
		" Buckets that this library makes refuse them.")
	warn(!c.DenyDelete, "allows the deletion of single messages, after which a record may read as an earlier one. Set deny_delete.")
	warn(!c.AllowDirect, "refuses direct gets: candidates need permission for %sSTREAM.MSG.GET.%s, which reads every key. Set allow_direct.", s.names.API, s.names.Stream)
	warn(dropsOldest, "drops its oldest records when it is full: they may be a leader's."+
		" Elections cool down before they promote, unless a leader hands over; with the discard policy new they need no such wait.")
	warn(c.Discard == jetstream.DiscardNew && (c.MaxBytes > 0 || c.MaxMsgs > 0), "has a size limit (%d bytes, %d messages; -1 is none), at which renewals are refused and leaders lost.", c.MaxBytes, c.MaxMsgs)
	r.Forgetful = c.Storage == jetstream.MemoryStorage || async
	r.Expires, r.MaxAge = c.MaxAge > 0 || dropsOldest, c.MaxAge
	return r, nil
}

// refuse reports every property that makes elections unsafe or impossible. It
// names all at once, so that a person changes the bucket once.
func (s *Store) refuse(c *jetstream.StreamConfig, req store.CheckRequest) error {
	var faults []error
	fault := func(when bool, format string, args ...any) {
		if when {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	if err := s.checkSubjects(c); err != nil {
		faults = append(faults, err)
	}
	fault(c.Mirror != nil, "it mirrors another stream, and reads from it may be of any age: use the origin")
	fault(len(c.Sources) > 0, "it has sources, whose records would replace an elected leader's: use a bucket without")
	fault(c.SubjectTransform != nil, "it transforms subjects: use a bucket that does not")
	fault(c.MaxAge > 0 && c.MaxAge < req.TTL, "it expires records after %v, before a lease of %v ends: "+
		"use a bucket without TTL, or one of at least the lease's", c.MaxAge, req.TTL)
	fault(c.Sealed, "it is sealed and takes no writes: use another")
	fault(c.NoAck, "it acknowledges no writes: make it without no_ack")
	fault(c.Retention != jetstream.LimitsPolicy, "its retention policy %v removes records that were read: use limits", c.Retention)
	fault(c.DiscardNewPerSubject, "it refuses to replace a record (discard_new_per_subject): make it without")
	fault(c.MaxMsgSize > 0 && c.MaxMsgSize < maxRecordMessage, "it takes messages of at most %d bytes: records need %d", c.MaxMsgSize, maxRecordMessage)
	fault(c.MaxBytes > 0 && c.MaxBytes < maxRecordMessage, "it holds at most %d bytes: a record needs %d", c.MaxBytes, maxRecordMessage)
	fault(c.AllowMsgCounter, "it counts instead of storing (allow_msg_counter): use another")
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: bucket %q does not suit elections: %w", store.ErrPermanent, s.names.Bucket, errors.Join(faults...))
}
