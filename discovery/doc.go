// Package discovery keeps the leader's entry in another system up to date, so
// that clients which know nothing of elections find the leader where they look
// for everything else.
//
//	a, err := etcddiscovery.New(client, etcddiscovery.Options{})
//	...
//	go discovery.Keep(ctx, election, a, discovery.Options{})
//
// [Keep] runs beside each candidate. The systems are adapters, each an
// [Announcer] in its system's module: etcd/etcddiscovery,
// consul/consuldiscovery and kubernetes/k8sdiscovery. An adapter for another
// system needs this package alone.
//
// [Follow] keeps the same entry without taking part in the election, for
// candidates that do not call Keep, and for the entry of a leader that died
// with all of them. leader announce, of cmd/leader, is Follow as a program.
//
// # What is guaranteed
//
//   - An entry is announced by a candidate that leads, after its promotion, or
//     by a follower that has heard of it since. Nothing is announced or
//     prolonged in the second half of a trust window (of a lease, by a
//     follower) that is not renewed.
//   - An earlier term's entry never replaces a later term's, however late its
//     bytes arrive. The keeper compares the terms, and the system writes only
//     if it still is at the version that was compared (its own
//     compare-and-swap).
//   - What others change or delete is announced again: at once where the
//     adapter watches, else at the next look ([Options].Interval).
//   - The entry of a term that has ended is removed. The leader withdraws it as
//     soon as it knows. If the leader is frozen, cut off or dead, the next
//     leader replaces the entry. If no candidate can lead, any other candidate
//     removes it within a second after the lease has run out, or 15 s after
//     trouble with its own store. A follower does so when the lease has run
//     out. If none of them is left alive, the entry runs out by itself, as far
//     as the system can do that: each adapter documents when.
//   - A call takes no longer than [Options].Timeout, and what fails is tried
//     again, backing off. A panic of an adapter or of
//     [Options].Report is reported, and ends nothing.
//   - When Keep returns, it has tried to withdraw what it had announced; when
//     Follow returns, the entry stays as it is. No goroutine of either is left.
//
// # What is not
//
// An entry is a hint. Clients hold on to what they have read, caches answer for
// the system, and between the end of a term and the withdrawal there is at
// least one message. Neither does it delay a handover: the old leader's entry
// goes when that one hears of its end, and the new one's comes right after its
// promotion; for moments there may be none. A server that must not serve
// while it does not lead asks its election (leadergrpc.UnaryServer,
// probe.Redirect), and a resource that a stale leader must not touch refuses
// its term (package fence).
//
// A group whose store was recreated counts its terms from the beginning, and
// the system may hold an entry of a larger number. The leader replaces such an
// entry after three trust windows in which nothing changed it, and after the
// store has acknowledged that it leads: by then a later term of this group's
// history could not be there. Two groups of one name in two stores, announced
// in one place, therefore take the entry from each other again and again; each
// time that is reported ([Displaced]).
//
// Anyone who may read the system sees the content of the entry:
// ElectionConfig.Address and Meta. The token of a term proves leadership to
// anybody who is shown it. It is not announced; a short hash of it is, which
// distinguishes terms of one number.
package discovery
