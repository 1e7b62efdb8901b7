package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "-part" || os.Args[1] == "-alone") { // proxy runs itself
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// How fast it is, is not judged: a test must not depend on the machine being
// fast.
func TestEachWayIsMeasuredOverLoopbackAndOverALink(t *testing.T) {
	args := []string{"-size", "1048576", "-rounds", "3", "-trips", "10"}
	want := 5
	if runtime.GOOS == "linux" && os.Getuid() == 0 {
		args, want = append(args, "-links", "1gbit"), 2*want
	} else {
		t.Log("links are left out: they take Linux and root")
	}
	var out, log bytes.Buffer
	if code := run(t.Context(), args, strings.NewReader(""), &out, &log); code != 0 {
		t.Fatalf("exit code %d: %s", code, &log)
	}
	rows := 0
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "loopback") || strings.HasPrefix(line, "1gbit") {
			rows++
		}
	}
	if rows != want || strings.Contains(out.String(), "NaN") {
		t.Errorf("%d rows, want %d:\n%s", rows, want, &out)
	}
	t.Logf("%s", &out)
}

func TestAProgramTakesThePlaceOfThePlainCopy(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("a command takes sh: ", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The plain copy, once more, as a program that knows its port.
	args := []string{"-size", "1048576", "-rounds", "3", "-trips", "10", "-copy", "'" + self + "' -part copy -listen $HOST:$PORT -to $TO"}
	if runtime.GOOS == "linux" && os.Getuid() == 0 {
		args = append(args, "-links", "1gbit")
	}
	var out, log bytes.Buffer
	if code := run(t.Context(), args, strings.NewReader(""), &out, &log); code != 0 {
		t.Fatalf("exit code %d: %s", code, &log)
	}
	if !strings.Contains(out.String(), "in the place of the plain copy: '"+self) || strings.Contains(out.String(), "NaN") {
		t.Errorf("%s", &out)
	}
}

func TestImpossibleMeasurementIsAnError(t *testing.T) {
	for _, args := range [][]string{{"-fast"}, {"-part", "nobody"}, {"-copy", "exit 3"}} {
		var out, log bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), &out, &log); code == 0 {
			t.Errorf("%v: %s", args, &out)
		}
	}
}
