// Package natsfence makes writes to NATS JetStream that a stale leader cannot
// make: to the keys of a key-value bucket ([KV]) and to the subjects of a
// stream ([Stream]).
//
// The group's mark is in the same stream as the data, as the last message of a
// guard subject. A new leader raises it first, by compare-and-swap and the rule
// of package fence. From then on each of its writes requires of the server that
// the guard's last message still be that one
// (Nats-Expected-Last-Subject-Sequence on the guard's subject). So it is the
// server that refuses, in the same step in which it would store, and neither
// clocks nor leases nor the writer's own opinion matter:
//
//	err := leader.Run(ctx, nc, cfg, func(ctx context.Context, term leader.Term) error {
//		orders, err := natsfence.OpenKV(ctx, js, "orders", cfg.Group, term)
//		if err != nil {
//			return err
//		}
//		_, err = orders.Put(ctx, "last", id) // fence.ErrStale: a newer term has started here
//		…
//
// Open before reading: what a predecessor wrote later than the guard was raised
// does not exist.
//
// # Outcomes
//
// Errors match one of:
//
//   - fence.ErrStale: a newer term raised the guard. Nothing was written, and
//     nothing will be.
//   - fence.ErrInvalid: a term, key, subject or header that is not allowed.
//     Nothing was sent.
//   - ErrLost: the guard was deleted, and an earlier term may have raised it
//     since. Nothing was written.
//   - ErrUnfit: the stream cannot hold a guard. Nothing was written.
//   - store.ErrTransient, store.ErrPermanent: the write was refused, or not
//     sent, for another reason.
//   - store.ErrUnknown: no answer came, or one that leaves it open. The write
//     may have been applied, or may be applied later, also after later writes
//     of the same term, but not once a newer term has raised the guard.
//
// # How fast
//
// Writes under one guard are sent one after the other, since a replicated
// stream checks one at a time: a round trip each, some 2,000 a second with
// three replicas on one machine. Groups do not wait for each other.
//
// # What the stream needs
//
// The guard must last as long as the data. [ErrUnfit] reports streams that
// would drop it: by age (unless the stream allows per-message TTLs, by which
// the guard is exempted, and has a subject_delete_marker_ttl), by limits that
// discard old messages, or by the retention of work queues and of interest. It
// also reports a stream in which the guard could not be raised again
// (discard_new_per_subject).
//
// A guard is exempted when it is opened, so before a stream is given a maximum
// age, per-message TTLs are allowed, and then each group's leader opens again.
// Where the age comes first, the guard may expire while its term writes, and a
// stale leader that opens later finds none. The subject_delete_marker_ttl is
// asked for since a server that restarts drops even exempted messages that are
// older than the maximum age, where there is none (seen on nats-server 2.15.2).
//
// Warnings of an opened guard list what weakens it: a stream whose sequences
// begin again when it is deleted and made again (natsstore.EnsureBucket makes
// one that does not), purges and rollups that the stream allows, memory
// storage, writes that are acknowledged before they are in a file (persist_mode
// async).
//
// A guard that was deleted is not raised again by the writers that had raised
// it, and nobody opens over a delete marker: it no longer shows who has led
// before. An operator who knows that no stale leader is left puts a mark there
// by hand, with the number of the latest term or 0, and a slash:
//
//	nats kv put orders _fence.reports 0/
//
// # Permissions
//
// A writer needs to publish to the data's subjects and the guard's, to
// $JS.API.STREAM.INFO.<stream>, and to $JS.API.DIRECT.GET.<stream>.<guard
// subject> ($JS.API.STREAM.MSG.GET.<stream> where the stream does not allow
// direct gets). NATS cannot demand the guard: a user that may publish can also
// publish without it.
package natsfence
