// Package httpproof carries proofs of leadership over HTTP, in the header
// Leader-Proof.
//
// The leader sends its requests through a [Transport], which signs a proof for
// each. The service lets through what [Require] accepts, and answers otherwise:
//
//	403 Forbidden                the proof is forged, malformed, expired, or for another group or audience
//	412 Precondition Failed      the term is stale: a newer one was here
//	428 Precondition Required    the request shows no proof
//	503 Service Unavailable      the gate could not decide: its mark could not be stored, or the
//	                             work of an earlier term did not end in time
//
// The bodies are problem details (RFC 9457), and show no proof. Package
// httpfence documents the answers to stale terms and to an undecided gate.
//
// The other way round, [Prove] has the leader's answers carry a proof, for
// clients that ask by a challenge in the header Leader-Challenge; an [Asker]
// takes no other answers.
//
// A proof is a bearer token: use TLS, and keep the header out of access logs.
package httpproof
