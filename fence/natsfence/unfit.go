package natsfence

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// fit reports why a stream cannot hold a guard, every reason at once.
func fit(c jetstream.StreamConfig) error {
	var faults []error
	check := func(bad bool, why string) {
		if bad {
			faults = append(faults, errors.New(why))
		}
	}
	check(c.Mirror != nil, "it is a mirror: open the guard at its origin")
	check(c.Retention != jetstream.LimitsPolicy, "its retention deletes what was consumed: use the limits policy")
	check(c.NoAck, "it does not acknowledge: without an answer nothing is known of a write")
	check(c.Sealed, "it is sealed")
	check(c.SubjectTransform != nil, "it stores messages under other subjects than it receives: remove the subject transform")
	check(c.AllowMsgCounter, "counters cannot be guarded")
	check(c.DiscardNewPerSubject, "it refuses to replace the guard, which each term raises: without discard_new_per_subject")
	check(c.MaxAge > 0 && !c.AllowMsgTTL, fmt.Sprintf("messages expire after %v, and the guard with them: allow per-message TTLs, "+
		"by which the guard is exempted, or set no maximum age", c.MaxAge))
	check(c.MaxAge > 0 && c.AllowMsgTTL && c.SubjectDeleteMarkerTTL <= 0, fmt.Sprintf("messages expire after %v, and a server that restarts drops "+
		"the exempted guard with them: set a subject_delete_marker_ttl, with which it does not, or no maximum age", c.MaxAge))
	old := c.Discard == jetstream.DiscardOld
	check(old && c.MaxMsgs > 0, "a full stream discards its oldest messages, the guard among them: discard new ones, or limit per subject")
	check(old && c.MaxBytes > 0, "a full stream discards its oldest messages, the guard among them: discard new ones, or set no limit in bytes")
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: stream %q: %w", ErrUnfit, c.Name, errors.Join(faults...))
}

// warnings lists what weakens a guard, each with its setting and the reason.
func warnings(c jetstream.StreamConfig) (all []string) {
	warn := func(weak bool, text string) {
		if weak {
			all = append(all, fmt.Sprintf("stream %q %s", c.Name, text))
		}
	}
	warn(c.FirstSeq <= 1, "counts from 1: if it is deleted and made again, a stale leader's guard may stand at a sequence that "+
		"comes again, and its writes would be let in; make it with a FirstSeq that grows, as natsstore.EnsureBucket does")
	warn(!c.DenyPurge || !c.DenyDelete || c.AllowRollup, "allows deletes, purges or rollups: whoever may do that can remove the guard, which "+
		"stops all writes until a person looks")
	warn(c.Storage == jetstream.MemoryStorage, "is kept in memory: a restart forgets the guard together with the data")
	warn(c.PersistMode == jetstream.AsyncPersistMode, "acknowledges writes before they are in a file (persist_mode async): the death of its server's process may "+
		"set the guard back together with the data, and let a stale leader write")
	return all
}
