package bucket

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/rights"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

func TestInspectionWarnsOfMirrorsThatAnswerAndNotOfSources(t *testing.T) {
	nc, js := devtest.Connect(t, devtest.Serve(t), nats.MaxReconnects(-1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: "b"}); err != nil {
		t.Fatal(err)
	}
	origin := &jetstream.StreamSource{Name: "KV_b"}
	for _, cfg := range []jetstream.StreamConfig{{Name: "copy", Mirror: origin}, {Name: "kept", Sources: []*jetstream.StreamSource{origin}}} {
		if _, err := js.CreateStream(ctx, cfg); err != nil {
			t.Fatal(err)
		}
	}
	i := Inspect(ctx, &app.Session{NC: nc, Bucket: "b"}, rights.NewTester(nc), time.Second)
	var found []finding.Finding
	for _, f := range i.Findings {
		if f.Check == "mirror" {
			found = append(found, f)
		}
	}
	if len(found) != 1 || found[0].Status != finding.Warn || !strings.Contains(found[0].Text, `"copy"`) ||
		found[0].Fix != "nats stream rm copy, then nats stream add copy --source KV_b" {
		t.Errorf("%+v", found)
	}
}
