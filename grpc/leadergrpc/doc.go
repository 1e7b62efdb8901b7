// Package leadergrpc lets gRPC calls find the leader of a group, and keeps
// servers that do not lead from serving them.
//
// # Clients
//
// A [Builder] resolves leader:///GROUP to the address of the group's leader, as
// an observer sees it. It is given to a channel, and registered nowhere:
//
//	b := leadergrpc.NewBuilder(leadergrpc.ObserveStore(st), leadergrpc.BuilderOptions{})
//	conn, err := grpc.NewClient("leader:///reports", append(b.DialOptions(), creds)...)
//
// New calls go to a new leader as soon as its record is seen, also while the
// connection to the old one is still open; calls in flight there go on. Without
// a leader, a call fails with Unavailable, or waits if it sets WaitForReady. A
// leader that has merely fallen silent keeps its calls until another is seen:
// the observer may be cut off from the store and not the leader, and a server
// that leads no more refuses them by itself.
//
// The leader's ElectionConfig.ConnectionParams, if they are a service config as
// gRPC knows it, are the channel's: timeouts, retries, waitForReady by method.
// They stay until a leader states others.
//
// The client interceptor, which DialOptions includes, sends a unary call again
// that was refused for want of leadership, and no other: the refusal proves
// that no handler ran. A call that fails in another way may have been served.
// Whether it may be repeated depends on the method: see
// [BuilderOptions].Repeatable. Streams are not repeated.
//
// With TLS a server's certificate is checked against the group's name unless
// grpc.WithAuthority or [BuilderOptions].ServerName names another.
//
// # Servers
//
// [UnaryServer] and [StreamServer] let a handler run on the leader alone, with
// a context that ends with the term and carries it (leader.TermFromContext).
// Elsewhere they answer FailedPrecondition with a [Refusal], which names the
// leader. A handler that goes on after its context has ended may overlap the
// next leader's: guard effects that must not overlap by the term, at the
// resource.
//
// # Resources
//
// A resource that leaders call refuses what is stale: [RequireTerm] admits
// calls whose metadata states a term that a gate of package fence lets in, and
// [StateTerm] states the term of a call's context there.
//
//	leader-group  the group's name
//	leader-term   the term's number, decimal
//	leader-token  the term's token
//
// The metadata does not authenticate. A program that can call the resource can
// state a large term, which keeps every leader out until the resource's mark is
// reset. So let candidates alone call it, by client certificates or the
// network, or demand a proof of each new term (fence.Gate.Vet). A token is a
// secret among the leader and its resources: use TLS.
package leadergrpc
