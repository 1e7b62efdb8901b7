// Package read is the commands that look and change nothing but the history's
// stream: ls, get, watch, history, token.
package read
