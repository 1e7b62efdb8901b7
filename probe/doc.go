// Package probe reports the state of an election to load balancers,
// orchestrators and clients over HTTP.
//
//	mux.Handle("/", probe.Handler(e, probe.Options{}))
//
// serves three paths, under any prefix, to GET and HEAD:
//
//	/livez   200 while the goroutine that renews the lease answers, 503 if it
//	         is stuck, or if the election has ended by itself: its connection
//	         was permanently closed, or it panicked. A NATS server that cannot
//	         be reached is not a reason to restart a program, so it does not
//	         count.
//	/readyz  200 from Start to Stop, if the program's own condition holds too
//	         ([Options].Ready). Leading makes no difference: a rollout that
//	         waits for every copy to lead would never end.
//	/leader  200 on the leader, 503 elsewhere, with the known facts about the
//	         leader as JSON ([Leader]), its address in the header
//	         Leader-Address and its term in Leader-Term.
//
// An answer is about the past as soon as it is given. A proxy that sends
// clients to the instance on which /leader was 200 a second ago sends some of
// them to a former leader: guard the work there by the term (see the
// documentation of package leader). [Redirect] sends clients to the leader
// without a proxy.
package probe
