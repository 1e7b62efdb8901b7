// Package read is the commands that look and change nothing but the history's
// stream: ls, get, wait, watch, history, token.
//
// A record says who leads, and not whether that one lives: it does not tell its
// age. So ls, get and wait ask others besides, who may not answer, and whom the
// user may lack the right to ask. What they say is added where it comes in
// time, and missed where it does not.
package read
