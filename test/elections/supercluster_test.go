package elections_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The bucket is in the cluster east. Candidates of both clusters elect over it.
// When the gateways are cut, the candidate of west stops, and the one of east
// leads.
func TestElectionsAcrossASuperCluster(t *testing.T) {
	t.Parallel()
	super := natslab.StartSuperCluster(t, 3, 1)
	ensure(t, super.East.Connect(t), natsstore.BucketConfig{Bucket: "b"})

	t.Run("LeadershipCrossesTheGateways", func(t *testing.T) {
		g := newGroup(t, "b")
		g.name = "crossing"
		impatient := func(c *leader.ElectionConfig) { c.ConnectionTimeout = long / 24 }
		east := g.join(super.East.Connect(t), "east", impatient)
		east.leads()
		west := g.join(super.West.Connect(t), "west", impatient)
		for range 3 {
			west.follows(east)
			west.succeed()
			east.follows(west)
			east.succeed()
		}
	})

	t.Run("LeaderWithoutTheBucketStopsWhenTheGatewaysAreCut", func(t *testing.T) {
		g := newGroup(t, "b")
		g.name = "cut"
		east, west := g.join(super.East.Connect(t), "east", ttl(short)), g.join(super.West.Connect(t), "west", ttl(short))
		west.succeed()
		super.CutGateways()
		east.leads()
		renewals := east.count("renew ok")
		g.await("east renews, and the attempts of west fail", func() bool {
			return east.count("renew ok") >= renewals+3 && west.count("acquire transient") > 0
		})
		if west.IsLeader() {
			t.Errorf("west leads without the bucket\n%s", g.report())
		}
		t.Logf("west's term ended: %s", west.lost())
		super.ResumeGateways()
		west.succeed()
		east.hears()
	})
}
