// Package process has the processes of candidates: it builds their program,
// starts them so that none outlives the lab, gives them orders, reads what they
// believe, starves them, and collects what they leave behind. It knows nothing
// of servers and of rounds.
package process
