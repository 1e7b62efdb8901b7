// Package version describes the build of this program, from what the Go command
// recorded in it.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// Development is the version of a program that was built from a directory,
// outside of version control.
const Development = "devel"

// Info describes what a program was built from. Fields that were not recorded
// are empty.
type Info struct {
	// Version is the module's, like v1.2.3. Between releases it is a
	// pseudo-version, and "devel" where nothing was recorded.
	Version string `json:"version"`
	// Library is the version of the library, the module
	// github.com/seed-ff2cb582/leader; "devel" if it was built together.
	Library string `json:"library"`
	// Revision is the commit.
	Revision string `json:"revision,omitempty"`
	// Time is the commit's time.
	Time *time.Time `json:"time,omitempty"`
	// Modified reports that the commit was built with changes.
	Modified bool `json:"modified"`
	// Tags are those that the program was built with, like natsonly.
	Tags string `json:"tags,omitempty"`
	// NATS is the version of the client library.
	NATS string `json:"nats"`
	// Server is the version of the NATS server behind --dev and leader demo.
	Server string `json:"server"`
	// Go is the version of Go.
	Go string `json:"go"`
	// Platform is the operating system and the processor, like linux/amd64.
	Platform string `json:"platform"`
}

// The modules whose versions matter to people.
const (
	library    = "github.com/seed-ff2cb582/leader"
	natsClient = "github.com/nats-io/nats.go"
	natsServer = "github.com/nats-io/nats-server/v2"
)

// Of returns what was recorded in this program.
func Of() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return from(build)
}

func from(build *debug.BuildInfo) Info {
	settings := make(map[string]string, len(build.Settings))
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	info := Info{
		Version:  named(build.Main.Version),
		Library:  Development,
		Revision: settings["vcs.revision"],
		Modified: settings["vcs.modified"] == "true",
		Tags:     settings["-tags"],
		Go:       build.GoVersion,
		Platform: cmp.Or(settings["GOOS"], runtime.GOOS) + "/" + cmp.Or(settings["GOARCH"], runtime.GOARCH),
	}
	if at, err := time.Parse(time.RFC3339, settings["vcs.time"]); err == nil {
		info.Time = &at
	}
	for _, dep := range build.Deps {
		switch dep.Path {
		case library:
			info.Library = named(dep.Version)
		case natsClient:
			info.NATS = dep.Version
		case natsServer:
			info.Server = dep.Version
		}
	}
	return info
}

// named spells the Go command's "(devel)" as people do.
func named(version string) string {
	if version == "" || version == "(devel)" {
		return Development
	}
	return version
}

// String is one line for people.
func (i Info) String() string {
	about := []string{i.Go, i.Platform}
	// A pseudo-version names the commit already.
	if short := i.Revision[:min(12, len(i.Revision))]; short != "" && !strings.Contains(i.Version, short) {
		if i.Modified {
			short += " with changes"
		}
		about = append([]string{"commit " + short}, about...)
	}
	if i.Tags != "" {
		about = append(about, "tags "+i.Tags)
	}
	return fmt.Sprintf("leader %s (%s)", i.Version, strings.Join(about, ", "))
}

// A Command is the command line of leader version.
type Command struct {
	output.Format
}

// Help is shown below the flags.
func (Command) Help() string {
	return `It needs no server.

Examples:

  leader version
  leader version -o wide
  leader version -o json | jq -r .version
  leader --version

Exit status: 0, or 2 for wrong usage.`
}

// Data returns the type that -o json prints.
func (Command) Data() any { return Info{} }

// Run prints the version.
func (c Command) Run(std app.Streams) error {
	info := Of()
	return c.Write(std.Out, output.Result{
		Value: info,
		Head:  []string{"VERSION", "COMMIT", "GO", "PLATFORM", "LIBRARY", "NATS", "SERVER"},
		Rows:  [][]string{{info.Version, info.Revision[:min(12, len(info.Revision))], info.Go, info.Platform, info.Library, info.NATS, info.Server}},
		Wide:  4,
		Names: []string{info.Version},
	})
}

// A Flag is leader --version.
type Flag bool

// BeforeReset prints the version in place of whatever else the command line
// asks for.
func (Flag) BeforeReset(parser *kong.Kong) error {
	if _, err := fmt.Fprintln(parser.Stdout, Of()); err != nil {
		return err
	}
	parser.Exit(0)
	return nil
}

// IgnoreDefault marks that the flag has no effect unless it is given.
func (Flag) IgnoreDefault() {}
