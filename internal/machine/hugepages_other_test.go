//go:build !linux

package machine

func inHugePages([]fingerprint) {}
