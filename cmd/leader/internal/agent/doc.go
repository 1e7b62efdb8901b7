// Package agent is leader agent: elections for programs in any language, over
// HTTP on loopback or a Unix socket.
//
// # Who believes what, and for how long
//
// A client leads while it trusts the latest answer to its request, and measures
// that by its clock from the instant before the request was sent:
//
//	client     sent ────────────────────────── sent + trust_for_ms      it stops acting
//	agent            answers at t ── grants trust_for_ms ──▶ t + trust   no earlier, since sent ≤ t
//	agent                                          its trust window, and the client's lease, end no earlier
//	others                                                                 lead after TTL × (1 + drift)
//
// So a client's belief ends before the agent's, and the agent's before the
// lease. An answer that comes late is worth less, not more. The reader of a
// stream does not know when an event was sent. So an event grants nothing, and
// only shows that it is time to ask.
//
// # Letting another lead
//
// A term is released when its work has stopped: when the client reports that,
// by the number of the term, or when the latest trust that any answer granted
// has run out. Until then OnPromote does not return, and the library releases
// nothing. A client that is frozen, killed or cut off stops without a notice.
//
// # The clients of an agent
//
// A candidate lives by its client's lease. Each keepalive renews it, and asks
// for trust: a client that does not ask has none, and one that asks lives. A
// connection would prove less, since the kernel keeps a frozen process's
// connections. Trust never outlasts the client's lease. So the candidate of a
// silent client is withdrawn, and released at once, when that lease runs out.
package agent
