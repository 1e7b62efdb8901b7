package record

import (
	"bytes"
	"encoding/base64"
	"maps"
	"math"
	"slices"
	"strconv"
)

// appendExact appends the record as encoding/json writes it, and reports
// whether decode makes the very record of that. If it reports false, what it
// returns is nothing: some string or number takes more than copying, or decode
// would change it.
//
// encoding/json needs more stack than a goroutine has at its start, and growing
// that costs more than the encoding, each time.
func appendExact(b []byte, r *Record) (_ []byte, exact bool) {
	w := writer{append(b, '{'), check(r) == nil}
	w.text("id", r.ID)
	w.text("token", r.Token)
	w.int("priority", r.Priority)
	w.meta(r.Meta)
	w.number("ttl", uint64(max(0, r.TTL))) // a negative one fails the check
	w.number("term", r.Term)
	w.number("renewal", r.Renewal)
	w.number("nonce", r.Nonce)
	w.flag("settled", r.Settled)
	w.text("address", r.Address)
	w.params(r.Params)
	w.fraction("drift", float64(r.Drift))
	w.exact = w.exact && ValidVersion(r.Version)
	w.text("version", r.Version)
	w.standings(r.Standings)
	w.exact = w.exact && r.Transitions <= maxNumber
	w.number("transitions", uint64(r.Transitions))
	w.exact = w.exact && r.Acquired <= MaxMoment && r.Renewed <= MaxMoment
	w.number("acquired", uint64(r.Acquired))
	w.number("renewed", uint64(r.Renewed))
	w.exact = w.exact && r.Prior == nil
	w.exact = w.exact && len(r.By) <= MaxName && len(r.Why) <= MaxWhy && len(r.Successor) <= MaxName
	w.text("reason", r.Reason)
	w.text("by", r.By)
	w.text("why", r.Why)
	w.text("successor", r.Successor)
	return append(w.b, '}'), w.exact
}

// A writer appends the fields of JSON objects. It leaves out what is empty.
type writer struct {
	b     []byte
	exact bool // so far
}

func (w *writer) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *writer) quoted(s string) {
	w.exact = w.exact && plain(s)
	w.b = append(w.b, '"')
	w.b = append(w.b, s...)
	w.b = append(w.b, '"')
}

// plain reports whether encoding/json copies the string. It escapes some
// characters that need no escape in JSON but do in HTML.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

func (w *writer) text(name, s string) {
	if s != "" {
		w.name(name)
		w.quoted(s)
	}
}

func (w *writer) flag(name string, v bool) {
	if v {
		w.name(name)
		w.b = append(w.b, "true"...)
	}
}

func (w *writer) int(name string, n int) {
	if n != 0 {
		w.name(name)
		w.b = strconv.AppendInt(w.b, int64(n), 10)
	}
}

func (w *writer) number(name string, n uint64) {
	if n != 0 {
		w.name(name)
		w.b = strconv.AppendUint(w.b, n, 10)
	}
}

func (w *writer) params(p *Params) {
	if p == nil {
		return
	}
	w.exact = w.exact && len(*p) > 0
	w.name("params")
	w.b = append(w.b, '"')
	w.b = base64.StdEncoding.AppendEncode(w.b, *p)
	w.b = append(w.b, '"')
}

// fraction writes a number that encoding/json would write without an exponent
// and Fraction would take.
func (w *writer) fraction(name string, f float64) {
	if f == 0 {
		return
	}
	w.exact = w.exact && 1e-6 <= f && f < 1
	w.name(name)
	if n := math.Round(f * tenThousandths); w.exact && n/tenThousandths == f {
		w.few(uint64(n))
		return
	}
	w.b = strconv.AppendFloat(w.b, f, 'f', -1, 64)
}

const tenThousandths = 1e4

// few writes so many ten thousandths, of which there are less than a whole. A
// number of few digits is its own shortest form, which strconv finds by long
// multiplications, with more stack than all else here.
func (w *writer) few(n uint64) {
	digits := strconv.AppendUint(w.b, tenThousandths+n, 10)
	digits[len(w.b)] = '0' // of the whole, which is in the way of no zero
	w.b = bytes.TrimRight(slices.Insert(digits, len(w.b)+1, '.'), "0")
}

func (w *writer) meta(m map[string]string) {
	if len(m) == 0 {
		return
	}
	w.name("meta")
	w.b = append(w.b, '{')
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.exact = w.exact && plain(k)
		w.name(k)
		w.quoted(m[k])
	}
	w.b = append(w.b, '}')
}

func (w *writer) standings(l []Standing) {
	if len(l) == 0 {
		return
	}
	w.exact = w.exact && len(l) <= MaxStandings
	w.name("standings")
	w.b = append(w.b, '[')
	for i, s := range l {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.exact = w.exact && s.valid()
		w.b = append(w.b, '{')
		w.int("priority", s.Priority)
		w.text("version", s.Version)
		w.int("age", s.Age)
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ']')
}
