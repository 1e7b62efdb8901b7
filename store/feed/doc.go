// Package feed makes the watches of package store out of reads, and out of
// whatever news a store's system brings by itself.
//
// An implementation of [store.Store] writes a [Source], which reads the states
// of some keys, and of all keys that match a pattern. A [Feed] on it is a
// [store.Watcher], a [store.PatternWatcher] and a [store.ConnReporter], which
// the implementation hands on:
//
//	type Store struct {
//		*feed.Feed // Watch, WatchPattern, ConnState, OnConnState
//		…
//	}
//
// A Source of a system that reports changes is also a [Follower]. Its news are
// hints: they may be lost, repeated and late. The Feed also reads when it
// begins, after each interruption, and now and then.
//
// Without news it reads by a clock: one request for all watched keys, and one
// for each watched pattern. It reads at least twice in a heartbeat while a key
// is watched whose heartbeat [Feed.Pace] has set, so a vacancy is found within
// half of a heartbeat.
//
// # What it demands
//
// Reads must behave as reads of one linearizable register: a read never shows a
// state older than one that the same Source has read or reported before the
// read began. A read that shows a lower revision than an earlier one then means
// that the store lost its state, or that the key was deleted, and is delivered
// as a change. So is a read that shows other content of the same revision.
package feed
