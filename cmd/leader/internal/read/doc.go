// Package read is the commands that look and change nothing but the history's
// stream: ls, get, wait, watch, history, token.
//
// A record contains who leads, but not its age, so the leader may be dead. So
// ls, get and wait also ask others, which may not answer, or which the user may
// not have the right to ask. Their answers are added where they come in time,
// and left out where they do not.
package read
