//go:build !race

package elections_test

// many is how many roles an instance may well have.
const many = 1000
