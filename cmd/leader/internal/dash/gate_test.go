package dash

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

func TestACookieIsGoodForOneVisitOfThisCommand(t *testing.T) {
	g, other := newGate("correct-horse-battery"), newGate("correct-horse-battery")
	cookie := func(signer *gate, until time.Time) string {
		text := strconv.FormatInt(until.Unix(), 10)
		return text + "." + signer.sign(text)
	}
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	for name, c := range map[string]struct {
		value string
		want  bool
	}{
		"ours":                 {cookie(g, later), true},
		"over":                 {cookie(g, before), false},
		"of another start":     {cookie(other, later), false},
		"prolonged":            {strconv.FormatInt(later.Unix(), 10) + "." + g.sign(strconv.FormatInt(before.Unix(), 10)), false},
		"signed, and no time":  {"for-ever." + g.sign("for-ever"), false},
		"without a signature":  {strconv.FormatInt(later.Unix(), 10), false},
		"empty":                {"", false},
		"signature of nothing": {"." + g.sign(""), false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/api/events", http.NoBody)
		r.AddCookie(&http.Cookie{Name: cookieName, Value: c.value})
		if got := g.knows(r); got != c.want {
			t.Errorf("%s: let in: %v, want %v", name, got, c.want)
		}
	}
}
