// Package read runs leader ls, get, watch, history and token verify, as built,
// on a cluster of three and with few rights.
package read
