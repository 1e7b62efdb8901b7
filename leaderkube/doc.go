// Package leaderkube lets programs of Kubernetes elect by this library: an
// election as the lock of client-go's leaderelection, and so of
// controller-runtime, over NATS or any store.
//
//	lock, err := leaderkube.New[resourcelock.LeaderElectionRecord](nc, leader.ElectionConfig{
//		Bucket: "leaders", Group: "operator", InstanceID: podName, TTL: 20 * time.Second, HeartbeatInterval: 4 * time.Second,
//	}, leaderkube.Options{})
//	mgr, err := ctrl.NewManager(config, ctrl.Options{
//		LeaderElection: true, LeaderElectionResourceLockInterface: lock, LeaderElectionReleaseOnCancel: true,
//	})
//	err = lock.Run(ctx, mgr.Start)
//
// The package needs nothing of Kubernetes: client-go's record is a type
// parameter, which a program fills with the record of whatever version it has.
//
// # What is guaranteed
//
// The election decides who leads, with all that package leader guarantees, and
// client-go's loop is a reader of it: it neither writes nor judges a lease.
//
//   - client-go is given the lock only by a candidate that leads, and keeps it
//     only while the trust window is open for another RetryPeriod +
//     RenewDeadline. So a leader that is cut off ends its work before another
//     leads, also by a loop that knows nothing but the lock.
//   - A context of [Lock.Context] ends as soon as the term does, whatever the
//     reason, also right after a suspension. So the loop that has it ends at
//     once.
//   - A term whose end was asked for (a step-down, a transfer, a takeover)
//     releases its record only when the loop has ended, and functions of
//     [Lock.Leading] and [Lock.Run] have returned, or DemoteTimeout has passed.
//   - A follower is given the lock as soon as it leads, and not at its next
//     RetryPeriod, if it was waiting; it is not during a pause of that length
//     after it heard of another leader.
//   - A loop that hangs loses the lock after its LeaseDuration, and the record
//     runs out.
//
// # What client-go adds, and what it loosens
//
// Without [Lock.Context] a loop notices a loss at its next question and then
// repeats the question for a RenewDeadline, without success, before it ends its
// work. In a requested handover that only delays the new leader. Where a
// process was frozen or suspended for longer than its lease, nothing holds up
// the others: its work goes on beside theirs, for up to RetryPeriod +
// RenewDeadline after it runs again. client-go's timers do not count a
// suspension of the machine at all. Always use Context, or [Lock.Run], whose
// context has the same property.
//
// OnStartedLeading's own context ends with the loop. [Lock.Leading] replaces it
// with the context of the term, whose Err is right at the first call, and which
// carries the number for a fenced resource.
//
// LeaderElector.IsLeader compares names; ask [Lock.IsLeader]. The LeaseDuration
// in its record does not describe the lease: LeaseDuration is how long a loop
// may be silent, and TTL how long a lease is. Its LeaderTransitions is not the
// number of a term.
//
// A loop whose context ends releases if it has ReleaseOnCancel, and leaves the
// record to expire if not, since its work may go on. controller-runtime ends
// its work before that, or gives it up after GracefulShutdownTimeout. A plain
// loop may release while OnStartedLeading is still returning, unless
// OnStartedLeading is a function of Leading.
//
// A manager of controller-runtime whose term was lost lets its work end, too,
// while its loop, which it ends afterwards, gives up after a RenewDeadline. So
// without [Lock.Run] the release waits for a RenewDeadline at the most, which
// is enough only if GracefulShutdownTimeout is not longer.
//
// # What is left to the caller
//
// The caller's duties under every election apply here, too: see package leader.
// Give the loop the Timing of its lock; a LeaseDuration or a RenewDeadline that
// differs is refused ([ErrTiming]), a longer RetryPeriod cannot be seen. Keep
// leader.ElectionConfig.DemoteTimeout as long as the work may take to end,
// since it bounds the time for which Run and Leading wait: a manager gives its
// work its GracefulShutdownTimeout, 30 s. End the process when the manager has
// ended, as client-go's programs do, or run a new loop with the same Lock.
//
// Coordinated leader election (LeaderElectionConfig.Coordinated) is not
// supported: there Kubernetes chooses the holder.
package leaderkube
