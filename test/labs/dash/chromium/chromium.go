// Package chromium starts a real Chromium for the project's tests, without root.
// Package servers finds it, and skips or fails a test without it.
package chromium

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/seed-ff2cb582/leader/test/labs/servers"
)

// Start starts a separate Chromium for a test, with an empty profile, and ends
// it with the test. The context is chromedp's.
func Start(tb testing.TB) context.Context {
	tb.Helper()
	bin := servers.Need(tb, "chromium")
	// The environment is set by the browser's own allocator; the test's is left
	// alone.
	env := append([]string{"HOME=" + tb.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:"}, servers.Env(servers.Root(bin))...)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(bin), chromedp.UserDataDir(tb.TempDir()), chromedp.Env(env...), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("headless", "new"), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-sync", true), chromedp.NoFirstRun,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("no-proxy-server", true),
	)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...) //nolint:usetesting // it ends after the test's own context
	browser, closeBrowser := chromedp.NewContext(ctx, chromedp.WithErrorf(tb.Logf))
	tb.Cleanup(func() {
		closeBrowser()
		cancel()
	})
	if err := chromedp.Do(browser); err != nil {
		tb.Fatalf("%s: %v", bin, err)
	}
	return browser
}
