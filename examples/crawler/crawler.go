package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/examples/internal/app"
	"github.com/seed-ff2cb582/leader/tasks"
)

// A crawler is one copy's.
type crawler struct {
	st  tasks.Store
	id  string
	out io.Writer
}

// page is the task of fetching a page: /SECTION/NAME at a site. Its ID begins
// with the site's port, which is another with each crawl.
func page(site, path string) tasks.Spec {
	port := site[strings.LastIndex(site, ":")+1:]
	section, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return tasks.Spec{
		ID: port + path, Payload: []byte(site + path), To: tasks.Target{Key: section},
		Timeout: 10 * time.Second, MaxAttempts: 20, Backoff: 100 * time.Millisecond,
	}
}

var link = regexp.MustCompile(`href="(/[a-z0-9]+/[a-z0-9]+)"`)

// fetch is a worker's handler: it fetches a page and submits those that it
// links to. It may be called twice for a page, and does no harm then.
func (c *crawler) fetch(ctx context.Context, worker string, t tasks.Task) ([]byte, error) {
	url := string(t.Payload)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	_, path, _ := strings.Cut(t.ID, "/")
	site := strings.TrimSuffix(url, "/"+path)
	var found []string
	for _, m := range link.FindAllStringSubmatch(string(body), -1) {
		next := page(site, m[1])
		if _, err := tasks.Submit(ctx, c.st, next); err != nil {
			return nil, err
		}
		found = append(found, next.ID)
	}
	app.Say(c.out, c.id, t.Term, "fetched page=%s worker=%s", t.ID, worker)
	return []byte(strings.Join(found, " ")), nil
}

// errDone ends the program when all is crawled.
var errDone = fmt.Errorf("all is crawled: %w", context.Canceled)

// crawl serves a site, submits its first page, and follows the results until it
// has seen them all.
func (c *crawler) crawl(ctx context.Context, pages int) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: site(pages), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	defer func() { _ = srv.Close(); <-served }()
	begun := time.Now()
	first := page("http://"+l.Addr().String(), "/s0/p0")
	if _, err := tasks.Submit(ctx, c.st, first); err != nil {
		return err
	}
	seen, waiting := map[string]bool{first.ID: true}, []string{first.ID}
	for ; len(waiting) > 0; waiting = waiting[1:] {
		s, err := tasks.Wait(ctx, c.st, waiting[0])
		if err != nil {
			return err
		}
		if s.State != tasks.Done {
			return fmt.Errorf("page %s: %s", s.ID, s.Error)
		}
		for id := range strings.FieldsSeq(string(s.Result)) {
			if !seen[id] {
				seen[id] = true
				waiting = append(waiting, id)
			}
		}
	}
	app.Say(c.out, c.id, leader.Term{}, "crawled pages=%d in %v", len(seen), time.Since(begun).Round(time.Millisecond))
	return errDone
}

// sections is how many the site has: so many that few workers are without one.
const sections = 60

// site is pages that link to each other: each to two more, and to the first.
func site(pages int) http.Handler {
	path := func(i int) string { return fmt.Sprintf("/s%d/p%d", i%sections, i) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var section, i int
		if n, err := fmt.Sscanf(r.URL.Path, "/s%d/p%d", &section, &i); n != 2 || err != nil || i < 0 || i >= pages {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "<h1>Page %d</h1>\n<a href=%q>home</a>\n", i, path(0))
		for _, next := range []int{2*i + 1, 2*i + 2} {
			if next < pages {
				fmt.Fprintf(w, "<a href=%q>page %d</a>\n", path(next), next)
			}
		}
	})
}
