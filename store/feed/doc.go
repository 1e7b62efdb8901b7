// Package feed makes the watches of package store out of reads, and out of
// whatever news a store's system brings by itself.
//
// An implementation of [store.Store] writes a [Source]: how the states of some
// keys are read, and those of all keys of a pattern. A [Feed] on it is a
// [store.Watcher], a [store.PatternWatcher] and a [store.ConnReporter], which
// the implementation hands on:
//
//	type Store struct {
//		*feed.Feed // Watch, WatchPattern, ConnState, OnConnState
//		…
//	}
//
// A Source of a system that tells of changes is a [Follower] besides. Its news
// are hints: they may be lost, repeated and late. The Feed looks for itself
// when it begins, after each interruption, and now and then.
//
// Without news it looks by a clock, all that is watched in one request for the
// keys and one for each pattern. A look comes at least twice in a heartbeat
// while a key is watched of which [Feed.Pace] has told one, so a vacancy is
// found within half of it.
//
// # What it demands
//
// Reads are those of one linearizable register: none shows a state older than
// what the same Source has shown or told before it began. A read that shows a
// lower revision than an earlier one is then a store that lost its state, or a
// key that was deleted, and is delivered as that. So is one that shows other
// content of the same revision.
package feed
