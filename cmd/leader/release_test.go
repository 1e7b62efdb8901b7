package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestReleaseConfiguration(t *testing.T) {
	t.Parallel()
	goreleaser, err := exec.LookPath("goreleaser")
	if err != nil {
		t.Skip("goreleaser is not installed")
	}
	cmd := exec.CommandContext(t.Context(), goreleaser, "check")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestImageIsBuiltByTheGoThatTheModuleAsksFor(t *testing.T) {
	t.Parallel()
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(dockerfile), "FROM golang:")
	image, _, _ := strings.Cut(rest, " ")
	if !strings.Contains(string(mod), "\ngo "+image+".") {
		t.Errorf("the image golang:%s builds a module with %q", image, string(mod[:120]))
	}
}
