// Package steer is the commands by which a person changes who leads. Step-down,
// transfer, pause and resume put a request to the leader. Vacate and forget end
// a record whose holder cannot be asked. Each describes its action, asks for
// confirmation, and reports the outcome.
package steer
