// Package examples holds small programs that elect a leader, each to be run in
// several copies against `nats-server -js`, or against its own server with
// -dev:
//
//   - quickstart: the program of the README, complete.
//   - worker: of all copies one works, with flags to try it.
//   - roles: many roles, spread over the copies.
//   - web: an HTTP service that redirects to its leader, with probes for
//     Kubernetes.
//   - grpc: a gRPC service of which the leader answers, and a client that is
//     always answered.
//   - scheduler: runs a job at fixed times, each slot once, whatever stalls:
//     the database is fenced.
//   - crawler: the leader hands out the pages of a site as tasks, and all
//     copies work.
//   - postgres: two hosts of a database whose primary leader run starts, and
//     psql, which reaches it through leader proxy. Scripts, and no Go.
//   - sidecar: campaigns for a program that is not written in Go, and answers
//     it over HTTP whether it leads.
//   - agent: clients of leader agent in Python and Node, whose programs
//     campaign and act themselves.
//   - operator: an operator of controller-runtime, whose writes the API server
//     fences. It is a module outside the workspace.
//   - sqlitestore: no program, but a store to copy from, over a file of SQLite.
//
// Each program has a test that starts it in several processes, and kills, stops and
// continues them. The manifests in deploy/kubernetes run web; their sidecar is
// the command, leader run.
package examples
