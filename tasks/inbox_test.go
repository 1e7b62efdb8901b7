package tasks

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWarningsThatOthersCauseAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		w := &warner{log: slog.New(slog.NewTextHandler(&said, nil))}
		for range 10 * warnings {
			w.warn("no")
		}
		if n := strings.Count(said.String(), "\n"); n != warnings {
			t.Errorf("%d lines in a second", n)
		}
		time.Sleep(time.Second)
		w.warn("again")
		w.warn("last")
		if got := said.String(); !strings.Contains(got, "again omitted_before=900\n") || !strings.HasSuffix(got, "msg=last\n") {
			t.Errorf("%s", got[len(got)-200:])
		}
	})
}
