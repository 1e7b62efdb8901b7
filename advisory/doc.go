// Package advisory publishes what elections do as messages on NATS subjects,
// for dashboards, alerts and history:
//
//	cfg.Hooks = leader.JoinHooks(cfg.Hooks, advisory.Hooks(nc, advisory.Options{}))
//
// Each transition of a candidate is one JSON message ([Advisory]) with the
// words that the logs use, and never a token. Its subject is
//
//	leader-advisory.<bucket>.<event>.<group>
//
// such as leader-advisory.leaders.promoted.jobs.eu-west. The event comes before
// the group because a group's name may have dots in it: so
// "leader-advisory.leaders.promoted.>" is every promotion of a bucket, and
// "leader-advisory.leaders.*.jobs.>" is whatever happens to the groups below
// jobs ([Subject]). The first word differs from the subjects on which buckets
// republish their records (leader.<bucket>.>), so that rights on the one never
// give rights on the other. A candidate of group g needs the right to publish
// leader-advisory.leaders.*.g, and nothing more.
//
// Nothing waits for an advisory. They are published in the background; while
// the connection is down they wait, and if more than [Options].Queue of them
// do, the oldest are dropped. [Advisory].Seq shows the reader such a gap.
// Advisories are for people and their tools: never decide by them who may act.
// A user with the right to publish a group's advisories may publish any claim
// about that group. [Subscribe] and [DecodeOn] refuse its claims about other
// groups.
//
// # History
//
// A stream keeps them:
//
//	nats stream add LEADER_HISTORY --subjects 'leader-advisory.>' --storage file --retention limits \
//	    --max-age 30d --discard old --dupe-window 2m --defaults
//
// Each message has an Nats-Msg-Id, so that one that was sent twice is kept
// once. [Terms] makes of the messages who led when.
//
// # Schema
//
// The messages satisfy the JSON Schema that [Schema] returns (schema.json). New
// fields may appear in version 1; a reader ignores those that it does not know.
package advisory
