package main

import (
	"os"
	"strings"
	"testing"
)

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
