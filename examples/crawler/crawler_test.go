//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/examples/internal/lab"
)

// The copy that leads is killed in the midst, and all pages are crawled, by ten
// workers and more. Which section is whose follows from the names: 10 workers
// of "a" alone have some, and 19 of "a" and "c".
func TestASiteIsCrawledThoughTheLeaderIsKilled(t *testing.T) {
	crew := lab.NewCrew(t, lab.Build(t), "-server", lab.Server(t), "-ttl", "1s")
	first := crew.Start("b")
	crew.Await("b leads", func(l lab.Line) bool { return l.ID == "b" && l.Text == "hands out" })
	crew.Start("c")
	crew.Start("a", "-crawl", "400")
	crew.Await("a page", func(l lab.Line) bool { return strings.HasPrefix(l.Text, "fetched") })
	first.Kill()
	crew.Await("all pages", func(l lab.Line) bool { return strings.HasPrefix(l.Text, "crawled pages=400") })
	crew.Await("another leads", func(l lab.Line) bool { return l.ID != "b" && l.Text == "hands out" })
	crew.AwaitLines("pages of ten workers", func(lines []lab.Line) bool {
		workers := map[string]bool{}
		for _, l := range lines {
			if _, worker, ok := strings.Cut(l.Text, " worker="); ok {
				workers[worker] = true
			}
		}
		return len(workers) >= 10
	})
}
