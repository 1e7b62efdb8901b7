package version

import (
	"runtime/debug"
	"testing"
)

func TestLineNamesTheCommitUnlessTheVersionDoes(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	for name, c := range map[string]struct {
		version, modified, want string
	}{
		"release":        {"v1.2.3", "false", "leader v1.2.3 (commit 0123456789ab, go1.26.0, plan9/arm)"},
		"pseudo-version": {"v1.2.4-0.20260102030405-0123456789ab", "false", "leader v1.2.4-0.20260102030405-0123456789ab (go1.26.0, plan9/arm)"},
		"with changes":   {"(devel)", "true", "leader devel (commit 0123456789ab with changes, go1.26.0, plan9/arm)"},
	} {
		info := from(&debug.BuildInfo{
			GoVersion: "go1.26.0",
			Main:      debug.Module{Version: c.version},
			Deps:      []*debug.Module{{Path: library, Version: "v1.2.0"}, {Path: natsClient, Version: "v1.55.0"}},
			Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: revision}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
				{Key: "vcs.modified", Value: c.modified}, {Key: "GOOS", Value: "plan9"}, {Key: "GOARCH", Value: "arm"},
			},
		})
		if info.String() != c.want || info.Library != "v1.2.0" || info.NATS != "v1.55.0" || info.Time == nil || info.Time.Year() != 2026 {
			t.Errorf("%s: %s, %+v, want %s", name, info, info, c.want)
		}
	}
}

func TestNothingRecordedIsDevel(t *testing.T) {
	if info := from(&debug.BuildInfo{}); info.Version != Development || info.Library != Development || info.Time != nil {
		t.Errorf("%+v", info)
	}
}
