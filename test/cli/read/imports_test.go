package read_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/built"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// importing is a server where one account has the bucket, and another imports
// what a candidate of one group needs, as docs/operations.md has it.
const importing = `
accounts {
  LEADERS {
    jetstream: enabled
    users: [ { user: admin, password: admin } ]
    exports: [
      { service: "$JS.API.STREAM.INFO.KV_leaders" }
      { service: "$KV.leaders.jobs.eu" }
      { service: "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders.jobs.eu" }
      { stream: "leader.leaders.jobs.eu" }
    ]
  }
  JOBS {
    users: [ { user: jobs, password: jobs } ]
    imports: [
      { service: { account: LEADERS, subject: "$JS.API.STREAM.INFO.KV_leaders" }, to: "$JS.leaders.API.STREAM.INFO.KV_leaders" }
      { service: { account: LEADERS, subject: "$KV.leaders.jobs.eu" }, to: "$JS.leaders.API.$KV.leaders.jobs.eu" }
      { service: { account: LEADERS, subject: "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders.jobs.eu" }, to: "$JS.leaders.API.DIRECT.GET.KV_leaders.$KV.leaders.jobs.eu" }
      { stream: { account: LEADERS, subject: "leader.leaders.jobs.eu" } }
    ]
  }
}`

// An account that imports a bucket has no JetStream of its own. Doctor told to
// enable that, where the elections work.
func TestDoctorKnowsABucketThatIsImported(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "server.conf")
	if err := os.WriteFile(path, []byte(importing), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := natslab.Start(t, func(o *server.Options) {
		if err := o.ProcessConfigFile(path); err != nil {
			t.Error(err)
		}
	})
	nc := srv.Connect(t, nats.UserInfo("admin", "admin"))
	if err := natsstore.EnsureBucket(within(t), natslab.JetStream(t, nc), natsstore.BucketConfig{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	doctor := func(bucket string) (int, string) {
		code, out, _ := built.Try(within(t), t, program, "doctor", "--group", group, "--ttl", "10m", "--server", srv.URL(), "--bucket", bucket,
			"--js-domain", "leaders", "--user", "jobs", "--password", "jobs", "--timeout", "3s")
		return code, out
	}
	if code, out := doctor(bucket); code != 0 || !strings.Contains(out, "imports what reaches the bucket") || strings.Contains(out, "not enabled") {
		t.Errorf("exit status %d\n%s", code, out)
	}
	if code, out := doctor("none"); code != 1 || !strings.Contains(out, "not enabled") {
		t.Errorf("of a bucket that is not imported: exit status %d\n%s", code, out)
	}
}
