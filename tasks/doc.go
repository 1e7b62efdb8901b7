// Package tasks lets the leader of a group hand out work. Anybody submits
// tasks, workers run them, and the leader decides who runs what; each task is
// stored, so that the next leader goes on where one has left.
//
//	bucket, _ := tasks.OpenBucket(ctx, js, tasks.BucketConfig{Bucket: "jobs", Group: "crawl"})
//	link := tasks.NewNATS(nc)
//
//	d := tasks.NewDispatcher(bucket, tasks.DispatcherOptions{Group: "crawl"}, link)  // on each candidate
//	leader.Run(ctx, nc, cfg, d.Lead)
//
//	w := tasks.NewWorker(link, handle, tasks.WorkerOptions{Group: "crawl", Name: "w1"}) // on each worker
//	w.Run(ctx)
//
//	tasks.Submit(ctx, bucket, tasks.Spec{ID: "page-1", Payload: []byte("https://…")})  // anywhere
//
// # What is guaranteed
//
//   - Nothing is lost. A task whose Submit returned nil is open until it is
//     recorded as done, or as failed after MaxAttempts, whatever becomes of
//     leaders and workers, as long as the store keeps its acknowledgements.
//   - At least once. An attempt whose worker is silent is given to another,
//     though it may have been run. Make handlers idempotent by [Task].ID, or
//     fence what they change.
//   - Never accepted from two terms at once. A worker that has seen a term
//     obeys nothing of an older one: neither its orders, nor what it revokes or
//     settles. Each attempt of a task is made by one compare-and-swap, and so
//     by one term for one worker.
//   - Recorded once. The outcome of a task is recorded by a compare-and-swap on
//     the attempt that is the present one, by the term that assigned it or a
//     newer one, and never changes afterwards.
//   - Submitted once. Submit is idempotent by the task's ID, for as long as its
//     record is kept (BucketConfig.Keep after its end).
//
// # What is left to the caller
//
// A worker that is cut off goes on with its attempts, while another starts them
// again: no message can stop a worker that receives nothing. A worker knows the
// newest term for as long as it runs; a worker that has just started accepts
// the first term that it receives. So where two runs of a task must not both
// take effect, give [Task].Term to the resource, and let it refuse stale terms
// (package fence), or make the effect conditional on the task's ID and Attempt.
//
// The numbers of a group's terms must only grow, as the numbers of one store of
// elections do. If a group moves to a store that numbers lower, or its store is
// made again and counts from the beginning, workers that have seen the larger
// numbers refuse every order until they end, and a task whose record states a
// larger number is left as it is. The way out: give the tasks another bucket,
// end all workers and start them again.
//
// # What is not believed
//
// Submitters and workers may state any number, so a record or a message never
// ends a leader's term; the election does. A record that is not valid or states
// a newer term is left as it is, logged, and counted in [Stats].
// docs/guides/tasks.md lists which part can stop which.
//
// # A task's way
//
//	queued ──▶ assigned (attempt n, to a worker) ──▶ done
//	   ▲            │
//	   └──backoff───┴── failure, deadline, worker gone or restarted ──▶ failed, after MaxAttempts
//
// The order goes to the worker when the assignment is stored. The worker holds
// its report until the leader confirms that it is recorded, over any number of
// leaders. A new leader calls the workers, reads the open tasks, leaves with
// each worker the tasks that it has, and assigns the rest.
//
// Deadlines are durations: the worker counts from the beginning of the attempt,
// the leader, with a grace, from the order. No wall clocks are compared. A new
// leader starts counting again.
//
// # Who gets a task
//
// A [Target] names a worker, a label or a key; without one any worker is good,
// and the one with most of its room free is taken. Keys are spread by
// rendezvous hashing over the workers that are there and do not drain. No
// worker is given more than its capacity; what finds no room waits, in the
// order of arrival.
//
// # Parts
//
// A [Store] keeps the tasks: [Bucket] in JetStream, [Memory] for tests and for
// what may be lost. A transport carries the messages, with a [Hub] at the
// leader's end and a [Link] at the worker's: [NATS], [Local] within a program,
// and package grpctasks. The package is part of the root module, since it
// needs nothing that this does not need anyway; the transport over gRPC, which
// does, is part of module grpc.
//
// A pure core (internal/core) makes the decisions. A simulation runs it with
// crashes, lost and doubled messages, lost acknowledgements and stale leaders.
// docs/guides/tasks.md has the evidence, the cost, and the rights that each
// part needs.
package tasks
