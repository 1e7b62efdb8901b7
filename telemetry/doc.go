// Package telemetry says what is measured of an election, once for all
// monitoring systems: the names of the metrics, their labels, and which event
// counts as what.
//
// Packages leaderprom and leaderotel are adapters on top of it, and what most
// programs want. This package is for another system: an adapter brings its
// instruments as a [Sink], and gets counters and histograms pushed into it by a
// [Tracker]. Gauges it asks of the tracker whenever it needs them, so that none
// says of an election what has ceased to hold.
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
