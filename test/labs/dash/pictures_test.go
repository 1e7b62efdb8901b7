package dash_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/test/labs/dash/chromium"
)

// TestPictures takes pictures of the page, light and dark, wide and narrow, for
// people to look at:
//
//	go test -run TestPictures ./test/labs/dash -args -screenshots /tmp
func TestPictures(t *testing.T) {
	if *screenshots == "" {
		t.Skip("-screenshots names no directory")
	}
	browser := chromium.Start(t)
	server, nc := bucket(t)
	keep(t, server)
	leaders := populate(t, nc)
	put(t, nc, "nonsense", "{")
	put(t, nc, "a-group.with-a-long-name.in-eu-central-1", `{"id":"reports-worker-17.rack-9.example","token":"t","term":7,"ttl":3600000}`)
	if err := leaders["reports"].Transfer(t.Context(), "reports-2"); err != nil {
		t.Fatal(err)
	}
	control, err := leader.NewControl(nc, "leaders", "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	if err := control.Drain(t.Context(), "reports-1", "a new kernel"); err != nil {
		t.Fatal(err)
	}
	site := serve(t, server, "--allow-control")
	p := visit(browser, t, site.url)
	p.until(cell("reports", 2) + " === 'reports-2'")
	p.until("performance.now() > 20000") // for the timelines
	p.until("document.querySelectorAll('.line rect').length >= 10")
	p.open("reports")
	p.until("document.querySelectorAll('.roll tbody tr').length === 2")
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		for name, size := range map[string][2]int64{"wide": {1280, 720}, "narrow": {390, 844}, "narrow-tall": {390, 1400}} {
			p.do(chromedp.EmulateViewport(size[0], size[1]))
			p.save(scheme + "-" + name)
		}
		p.do(chromedp.EmulateViewport(1280, 720), chromedp.Click(chromedp.CSS("[data-op=transfer]")))
		p.until("document.querySelectorAll('#ask-candidates option').length > 0")
		p.save(scheme + "-ask")
		p.do(chromedp.Click(chromedp.CSS("#ask-cancel")), chromedp.Click(chromedp.CSS("[data-op=pause]")))
		p.save(scheme + "-pause")
		p.do(chromedp.EmulateViewport(390, 844))
		p.save(scheme + "-narrow-pause")
		p.do(chromedp.Click(chromedp.CSS("#ask-cancel")))
	}
	p.takeStale(site)
	p = visit(browser, t, serve(t, server, "--dash-token", "correct-horse-battery").url)
	p.until("location.pathname === '/login'")
	p.do(chromedp.EmulateViewport(390, 844))
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		p.save(scheme + "-login")
	}
	p.do(chromedp.SendKeys(chromedp.CSS("#token"), "wrong-horse-battery\r"))
	p.until("document.querySelector('.notice') !== null")
	p.save("dark-login-wrong")
}

// TestPictureForTheReadme draws docs/dash.png, which make generate writes.
func TestPictureForTheReadme(t *testing.T) {
	if *picture == "" {
		t.Skip("-picture names no file")
	}
	browser := chromium.Start(t)
	server, nc := bucket(t)
	keep(t, server)
	leaders := populate(t, nc)
	p := visit(browser, t, serve(t, server, "--allow-control").url)
	for i, group := range []string{"reports", "jobs.eu", "billing", "scheduler"} { // terms of several lengths
		p.until(fmt.Sprintf("performance.now() > %d", 5000*(i+1)))
		if err := leaders[group].Transfer(t.Context(), group+"-2"); err != nil {
			t.Fatal(err)
		}
	}
	p.until("performance.now() > 25000")
	p.open("reports")
	p.until("document.querySelectorAll('.roll tbody tr').length === 2")
	p.scheme("light")
	p.do(chromedp.EmulateViewport(1240, 690))
	shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*picture, smaller(t, shot), 0o644); err != nil {
		t.Fatal(err)
	}
}

// smaller is the picture with the 256 colours that most of it has: a page has
// few, but for the edges of its letters.
func smaller(t *testing.T, shot []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	count := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			count[full.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	few := image.NewPaletted(full.Bounds(), colours[:min(len(colours), 256)])
	draw.Draw(few, few.Bounds(), full, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// populate starts two candidates in each of some groups, and returns the
// leaders.
func populate(t *testing.T, nc *nats.Conn) map[string]leader.Election {
	t.Helper()
	leaders := map[string]leader.Election{}
	telling := func(cfg *leader.ElectionConfig) {
		cfg.Hooks = leader.JoinHooks(cfg.Hooks, advisory.Hooks(nc, advisory.Options{}))
	}
	for _, group := range []string{"billing", "cache-warmer", "jobs.eu", "jobs.us", "jobs.us.nightly", "mail", "reports", "scheduler"} {
		e := stand(t, nc, group, group+"-1", telling)
		stand(t, nc, group, group+"-2", telling, func(cfg *leader.ElectionConfig) { cfg.Version = "1.4.2" })
		leaders[group] = e
		if group == "mail" {
			if err := e.Pause(t.Context(), "database migration"); err != nil {
				t.Fatal(err)
			}
		}
	}
	return leaders
}

// takeStale takes pictures of a page whose command is gone.
func (p *tab) takeStale(s *site) {
	p.Helper()
	s.stop()
	p.until("document.body.classList.contains('stale')")
	p.scheme("light")
	p.do(chromedp.EmulateViewport(1280, 720))
	p.save("light-stale-wide")
	p.do(chromedp.EmulateViewport(390, 844))
	p.save("light-stale-narrow")
}

// save takes a picture of what is on the screen.
func (p *tab) save(name string) {
	p.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o644); err != nil {
		p.Fatal(err)
	}
}

// scheme has the browser prefer a colour scheme.
func (p *tab) scheme(name string) {
	p.Helper()
	p.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	}))
}
