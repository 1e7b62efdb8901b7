// Command vulncheck runs govulncheck in each of the modules named on the
// command line. Where the database of known vulnerabilities cannot be reached
// it reports that and succeeds, unless -require is given: a check that could
// not be made must neither look like one that passed nor stop the work of
// somebody without a network.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// run exits with 0 if nothing was found or nothing could be looked up, 1 on a
// finding or a failure of govulncheck, 2 on wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("vulncheck", flag.ContinueOnError)
	flags.SetOutput(stderr)
	tool := flags.String("tool", "govulncheck", "the `path` of govulncheck")
	db := flags.String("db", "https://vuln.go.dev", "the database's `URL` (https or file)")
	require := flags.Bool("require", false, "fail if the database cannot be reached")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := reach(ctx, *db); err != nil {
		fmt.Fprintf(stdout, "vulncheck: NOT CHECKED for known vulnerabilities: the database at %s cannot be reached: %v\n", *db, err)
		if *require {
			return 1
		}
		return 0
	}
	code := 0
	for _, dir := range flags.Args() {
		cmd := exec.CommandContext(ctx, *tool, "-db", *db, "-test", "./...")
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stdout, stderr
		// This command runs outside the workspace; the modules need theirs.
		cmd.Env = append(os.Environ(), "GOWORK=")
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(stderr, "vulncheck: %s: %v\n", dir, err)
			code = 1
		}
	}
	return code
}

// reach asks the database for its index, three times within half a minute. It
// asks itself, since govulncheck reports a failed look-up by the same exit code
// as every other failure, and its text is not a thing to decide by.
func reach(ctx context.Context, db string) (err error) {
	if strings.HasPrefix(db, "file:") {
		return nil
	}
	for range 3 {
		if err = index(ctx, db); err == nil {
			return nil
		}
	}
	return err
}

// index fetches index/db.json, which every such database has:
// https://go.dev/doc/security/vuln/database.
func index(ctx context.Context, db string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, db+"/index/db.json", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	var meta struct{ Modified time.Time }
	return json.NewDecoder(resp.Body).Decode(&meta)
}
