// Package httpfence carries terms over HTTP and turns stale ones away.
//
// The client of a protected service sends each request through a [Transport],
// which takes the term from the request's context (leader.TermFromContext) and
// states it in three headers:
//
//	Leader-Group: reports
//	Leader-Term: 1795201843456290
//	Leader-Token: 6f1c2f6e-0c0e-4e0e-9d61-6ed0f6a1a6e3
//
// It does not send for a term that is over. That is a courtesy and no
// protection: the request may be late on its way. The protection is the
// service's: [Require] lets a request through to its handler only if its term
// enters a gate (fence.Gate), and answers otherwise:
//
//	412 Precondition Failed      the term is stale: a newer one was here
//	428 Precondition Required    the request states no term
//	403 Forbidden                the gate refuses the term, for want of a proof for example (fence.Gate.Vet)
//	400 Bad Request              the headers are malformed, or of another group
//	503 Service Unavailable      the gate could not decide: its mark could not be stored, or the
//	                             work of an earlier term did not end in time
//
// 412, and not 409: RFC 9110 has it for "conditions given in the request header
// fields" that are false, nothing was done, and a client must not resubmit, as
// 409 would invite it to; a stale leader cannot repair its request. The bodies
// are problem details (RFC 9457). They state the numbers of terms, and never a
// token.
//
// The headers do not authenticate the sender. A program that can send requests
// to the service can send a large term, which keeps every leader out until the
// service's mark is reset. So let candidates alone reach it, by client
// certificates or the network, or require a proof of each new term
// (fence.Gate.Vet). A token is a secret among the leader and its resources: use
// TLS, and keep the header out of access logs. The handler does not see it.
package httpfence
