package leaderkube_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderkube"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// This example does by hand the steps that client-go's loop takes with a Lock.
// A program writes resourcelock.LeaderElectionRecord for the type, and gives
// the lock to leaderelection.RunOrDie or a manager:
//
//	leaderelection.RunOrDie(lock.Context(ctx), leaderelection.LeaderElectionConfig{
//		Lock: lock, ReleaseOnCancel: true,
//		LeaseDuration: timing.LeaseDuration, RenewDeadline: timing.RenewDeadline, RetryPeriod: timing.RetryPeriod,
//		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: lock.Leading(work), OnStoppedLeading: func() {}},
//	})
func Example() {
	cfg := leader.ElectionConfig{Group: "operator", InstanceID: "pod-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second}
	timing := leaderkube.TimingFor(cfg)
	lock, err := leaderkube.NewWithStore[electionRecord](memstore.New(), cfg, leaderkube.Options{Timing: timing})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	record, _, err := lock.Get(ctx) // returns when this candidate leads
	fmt.Println(record.HolderIdentity, err)
	err = lock.Update(ctx, *record) // each RetryPeriod
	fmt.Println(lock.IsLeader(), err)
	err = lock.Update(ctx, electionRecord{}) // with ReleaseOnCancel, at the end
	fmt.Println(lock.IsLeader(), err)
	// Output:
	// pod-1 <nil>
	// true <nil>
	// false <nil>
}
