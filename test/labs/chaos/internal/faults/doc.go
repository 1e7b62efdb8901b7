// Package faults has what the fire lab does to candidates, servers and what
// they store: each kind with what it is drawn by and what it does to a round.
package faults
