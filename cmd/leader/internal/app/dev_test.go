package app

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devnats"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
)

func TestSampleElectionsEndWithTheSession(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	kit := Kit{
		Settings: func(f natsconn.Flags) (natsconn.Settings, error) { return natsconn.Settings{URL: f.Server}, nil },
		Serve:    func(port int) (Server, error) { return devnats.Start(port) },
	}
	target := Target{Kit: kit, Bucket: "samples", Timeout: 10 * time.Second, Dev: true}
	s, err := target.OpenLive("test")
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.Store()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	infos, err := leader.SnapshotWithStore(ctx, st, ">")
	if err != nil {
		t.Fatal(err)
	}
	if len(infos) != len(sampleGroups()) {
		t.Errorf("%d groups: %+v", len(infos), infos)
	}
	url := s.NC.ConnectedUrl()
	s.Close()
	s.Close()
	if nc, err := (natsconn.Settings{URL: url}).Connect("test", nats.Timeout(time.Second)); err == nil {
		nc.Close()
		t.Error("the server lives on")
	}
}
