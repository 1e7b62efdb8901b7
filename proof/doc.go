// Package proof lets a leader prove that it leads to programs that have no
// connection to the store.
//
// The leader signs "X leads GROUP in TERM until T" with a key of its group. The
// proof is a JWT (RFC 7519, EdDSA), which a library of any language verifies,
// offline, with the group's public keys (a JWK Set, [KeySet]).
//
//	signer, err := proof.NewSigner(election, cfg.Group, cfg.InstanceID, key, proof.SignerOptions{})
//	text, err := signer.Sign(ctx, "billing")          // the leader, in the context of its term
//
//	verifier, err := proof.NewVerifier("reports", keys, proof.VerifierOptions{Audience: "billing"})
//	statement, err := verifier.Accept(ctx, text)      // the resource
//
// A server proves to its clients that it leads by answering the challenge of
// each ([Signer.Answer], [Verifier.AcceptAnswer]).
//
// Package httpproof, in this module, carries proofs over HTTP; package grpcproof
// over gRPC, in module grpc, so that no program without gRPC fetches or compiles it.
//
// # What is guaranteed
//
//   - Without a key of the group nobody makes a proof, as far as Ed25519 holds.
//   - A proof ends with the leader's trust window, as it was when the proof was
//     signed, or earlier ([SignerOptions].Lifetime).
//   - If the clocks of signer and verifier differ by no more than Skew, and all
//     rates stay within the drift, then nobody has taken the lead from X by
//     waiting for its lease to run out when a verifier accepts X's proof.
//   - A verifier that has accepted a term accepts no earlier one, and none of
//     the same number by another candidate ([Verifier.Accept]): that needs no
//     clock.
//
// The third rests on Skew being taken from the time of a proof. Say that the
// proof was signed at s, on the true clock, with r left of the trust window,
// and that at t the verifier's clock shows a time earlier than exp − Skew. The
// signer's clock showed exp − r at s, and the two differ from each other by at
// most Skew, at whatever instants they are read, so t − s < r. The renewal
// behind the window left at most (TTL × (1 − d) − r) / (1 − d) before s, since
// the leader's clock may be slow by d. So less than TTL has passed since that
// renewal left, and the others wait for at least TTL (docs/reference/protocol.md, G1).
// The leeway that JWT libraries offer works the other way round: it accepts
// proofs for longer, here beyond the lease. It belongs at 0, or below.
//
// # What is left to the caller
//
//   - A leader that hands over (it resigns, is asked to, its work ends) lets
//     another lead at once, and its last proofs last until they end. Only the
//     memory of a verifier refuses them, from the successor's first proof on.
//     So a new leader shows its proof before it reads what it builds on, as
//     package fence requires.
//   - A proof is a bearer token: anyone that gets it can show it. Send it over
//     TLS, and give it an audience, so that one resource cannot show it to the
//     next.
//   - A verifier's memory is in its gate. To keep it across a restart, give a
//     gate that persists its mark (fence.Gate). Otherwise a restarted verifier
//     accepts an old term's proof until that ends.
//   - A key speaks for its group: its thief passes for the leader until it is
//     out of the verifiers' key sets, and a term's number that is too large,
//     signed with it, keeps honest leaders out until the gate is reset.
//   - A key set is as trustworthy as the way by which it came.
package proof
