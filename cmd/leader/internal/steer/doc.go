// Package steer is the commands by which a person changes who leads: step-down,
// transfer, pause, resume. Each says what it is about to do, asks back, puts a
// request to the leader, and reports what came of it.
package steer
