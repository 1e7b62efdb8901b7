//go:build !linux

package main

// actAsProgram reports false: the trials of leader run are for Linux.
func actAsProgram() bool { return false }
