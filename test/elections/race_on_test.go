//go:build race

package elections_test

// many roles are fewer here: the race detector makes everything about ten times
// slower.
const many = 200
