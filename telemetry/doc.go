// Package telemetry defines what is measured of an election, once for all
// monitoring systems: the names of the metrics, their labels, and which event
// counts as what.
//
// Packages leaderprom and leaderotel are adapters on top of it, and suit most
// programs. This package is for another system: an adapter brings its
// instruments as a [Sink], and gets counters and histograms pushed into it by a
// [Tracker]. It asks the tracker for gauges whenever it needs them, so that no
// gauge shows a state that is over.
//
//	hooks := leader.Hooks{PerElection: func(e leader.Election, cfg leader.ElectionConfig) leader.Hooks {
//		tracker := telemetry.Track(e, cfg, newSink(telemetry.IdentityOf(cfg)))
//		return leader.JoinHooks(tracker.Hooks(), roster.Show(telemetry.IdentityOf(cfg), tracker))
//	}}
//
// Alerts look for the first increment of some counters, and a monitoring system
// does not see the one with which a counter appears. So an adapter shows from
// the start of an election what [Definition.Initial] names.
//
// No measurement and no label ever holds a token.
package telemetry
