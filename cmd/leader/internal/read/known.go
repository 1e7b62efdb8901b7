package read

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

// Known returns groups that an observer was told of, with what their records do
// not say, or by the leader's clock alone: since when, and how old the latest
// renewal is. It asks for two seconds at most. It is for the page, which has
// its groups from an observer and asks once.
func Known(ctx context.Context, s *app.Session, infos []leader.LeaderInfo) []Group {
	now := time.Now()
	groups := make([]Group, len(infos))
	for i, info := range infos {
		groups[i] = groupOf(info, now)
	}
	newDetails(s).complete(ctx, ">", groups)
	return groups
}
