package natslab_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The server removes the directory of an account's streams a moment after the
// last of them has gone, if it is empty (stream.go, stop). That must fail here
// as well as there: a stream that is made just then would find no directory.
func TestTheDirectoryOfStreamsCannotBeRemoved(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := natslab.JetStream(t, srv.Connect(t))
	streams := filepath.Join(srv.Inner().JetStreamConfig().StoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams")
	for _, when := range []string{"before the first stream", "after the last one"} {
		if err := os.Remove(streams); err == nil || os.IsNotExist(err) {
			t.Fatalf("%s the directory was removed (%v)", when, err)
		}
		if _, err := js.CreateStream(natslab.Within(t), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteStream(natslab.Within(t), "S"); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that knows users closes a connection that does not identify itself
// in time, by default within 2 s. A machine that stalls for longer made a test
// fail by "broken pipe".
func TestConnectionsHaveTimeToIdentifyThemselves(t *testing.T) {
	t.Parallel()
	for name, srv := range map[string]*natslab.Server{
		"alone":      natslab.Start(t, natslab.Users(natslab.Admin())),
		"in cluster": natslab.StartCluster(t, 3, natslab.Users(natslab.Admin())).Nodes[0],
	} {
		v, err := srv.Inner().Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := natslab.Patience.Seconds(); v.AuthTimeout < want {
			t.Errorf("%s: %v s, want %v", name, v.AuthTimeout, want)
		}
	}
}
