// Package rollcall asks the candidates of a group who they are. A record names
// the leader alone; only the candidates know which other candidates there are,
// and their state. They answer when asked, and cost nothing otherwise: one
// subscription each.
//
// A candidate takes part by its hooks, in Run, in an Election and in a
// RoleManager alike:
//
//	cfg.Hooks = leader.JoinHooks(cfg.Hooks, rollcall.Hooks(nc))
//
// To ask:
//
//	candidates, err := rollcall.All(ctx, nc, "leaders", "reports")
//
// # Subjects and permissions
//
// A group is asked on
//
//	leader-rollcall.<bucket>.<group>
//
// The first word is none of the subjects of records and advisories, so that
// rights on the one never give rights on the other. A candidate of group g
// needs the right to subscribe to leader-rollcall.leaders.g and to publish
// answers: allow_responses in its permissions suffices. A program that asks
// needs the right to publish leader-rollcall.leaders.g (or
// leader-rollcall.leaders.> for all groups) and to subscribe to its own inbox.
// A candidate without these rights takes part as before, and does not answer.
//
// A candidate answers only on subjects that were made for answers. Otherwise a
// request could have it write over its own record, by naming the record's
// subject as the place for the answer.
//
// Answers are the candidates' own reports, for people: any user that may
// subscribe to the subject may answer anything. Never decide by them who may
// act.
package rollcall
