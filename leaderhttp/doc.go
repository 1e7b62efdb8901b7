// Package leaderhttp sends HTTP requests to the leader of a group.
//
// A [Transport] knows the leader from an observer, and sends each request to
// its address:
//
//	t := leaderhttp.New(func(ctx context.Context) iter.Seq2[leader.LeaderInfo, error] {
//		return leader.Observe(ctx, nc, "leaders", "reports")
//	}, leaderhttp.Options{})
//	defer t.Close()
//	client := &http.Client{Transport: t}
//	resp, err := client.Get("http://reports/today")
//
// The host of the URL is a name of yours for the group: nothing is looked up
// under it, and cookies and relative redirects go by it. A service may redirect
// to that host or to the leader's; a redirect to another one fails with
// [ErrRedirected].
//
// A request is sent again where it is certain that no handler has seen it, and
// nowhere else: where the server that got it refuses since it does not lead,
// and where no connection could be opened. A refusal is an answer of 307, 421
// or 503 with the header Leader-Refusal, and the group's name in Leader-Group,
// as [probe.Redirect] sends. If it has the address of the server that refuses,
// in Leader-Refused-By, that must be the address in the record by which the
// request was sent, unless Options.Base maps addresses. So a refusal of another
// group, which the leader's handler may have got and passed on, is an answer
// like others, or ErrRedirected if it is a redirect; and so is a refusal by a
// version of probe.Redirect that does not name its group. Update servers before
// their clients: until then a request that a follower of an earlier version
// refuses fails, and is not sent again. Servers should be behind
// probe.Redirect, which keeps refusals out of their handlers' answers.
//
// Under TLS a server's certificate is checked for the group's name unless
// Options.ServerName changes that, so neither a record nor a refusal takes a
// request and its credentials to a host of another group.
//
// A host that is gone would hold a request up for as long as the transport
// below tries to connect: when another leader is seen, a request that has had
// no connection for a quarter of a second is given up, and goes to that leader.
// All this needs a body that can be sent again: none, or one with
// Request.GetBody, as http.NewRequest makes it of buffers and strings.
// Otherwise the caller gets the answer as it came. That a request has no
// connection yet is known of transports that heed net/http/httptrace, as
// http.Transport does.
//
// The transport below may repeat more by itself. http.Transport does so with
// requests that it takes to be idempotent (GET, HEAD, OPTIONS and TRACE, and
// what has a header Idempotency-Key), where a connection breaks that it has
// used before: such a request may run on two leaders, one after the other.
//
// A leader that has merely fallen silent, as seen by the observer, keeps its
// requests until another is seen: we may be cut off from the store, and not the
// leader.
package leaderhttp
