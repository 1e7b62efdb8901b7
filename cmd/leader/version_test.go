package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/version"
)

func TestVersionIsWhatTheGoCommandRecorded(t *testing.T) {
	t.Parallel()
	code, out, stderr := runProgram(t, nil, "version", "-o", "json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", code, stderr)
	}
	var info version.Info
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&info); err != nil {
		t.Fatal(err)
	}
	if info.Version == "" || info.Library == "" || info.Go != runtime.Version() || info.Platform != runtime.GOOS+"/"+runtime.GOARCH ||
		!strings.HasPrefix(info.NATS, "v1.") || !strings.HasPrefix(info.Server, "v2.") {
		t.Errorf("%+v", info)
	}
	for _, args := range [][]string{{"--version"}, {"ls", "--version"}, {"--version", "ls"}} {
		code, out, stderr := runProgram(t, nil, args...)
		if code != 0 || stderr != "" || out != info.String()+"\n" {
			t.Errorf("leader %q: exit status %d, stdout %q, stderr %q", args, code, out, stderr)
		}
	}
	if _, out, _ := runProgram(t, nil, "version", "-o", "name"); out != info.Version+"\n" {
		t.Errorf("-o name: %q", out)
	}
}
