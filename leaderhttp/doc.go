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
// under it, and cookies and relative redirects go by it.
//
// A request is sent again where it is certain that no handler has seen it, and
// nowhere else: where the server that got it does not lead (the answers of
// [probe.Redirect], which are marked), where it says 421 Misdirected Request
// (RFC 9110, section 15.5.20: such a request may be repeated "whether or not
// the request method is idempotent"), and where no connection could be opened.
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
