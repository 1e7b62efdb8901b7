package tasks

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// formatRecord returns a record as encoding/json writes it. A leader writes two
// records a task, and reads one.
func formatRecord(r *wire.Record) (b []byte, err error) {
	size := base64.StdEncoding.EncodedLen(len(r.Payload)) + base64.StdEncoding.EncodedLen(len(r.Result)) + len(r.Error)
	b = make([]byte, 0, 384+size)
	b = appendText(append(b, `{"state":`...), string(r.State))
	b = appendBytes(b, `,"payload":`, r.Payload)
	b = appendTarget(b, &r.To)
	b = strconv.AppendInt(append(b, `,"timeout":`...), int64(r.Timeout), 10)
	b = strconv.AppendInt(append(b, `,"max_attempts":`...), int64(r.MaxAttempts), 10)
	if r.Backoff != 0 {
		b = strconv.AppendInt(append(b, `,"backoff":`...), int64(r.Backoff), 10)
	}
	if !r.Submitted.IsZero() {
		if b, err = r.Submitted.AppendText(append(b, `,"submitted":"`...)); err != nil {
			return nil, err
		}
		b = append(b, '"')
	}
	if r.Term != 0 {
		b = strconv.AppendUint(append(b, `,"term":`...), r.Term, 10)
	}
	if r.Attempt != 0 {
		b = strconv.AppendInt(append(b, `,"attempt":`...), int64(r.Attempt), 10)
	}
	if r.Failures != 0 {
		b = strconv.AppendInt(append(b, `,"failures":`...), int64(r.Failures), 10)
	}
	b = appendField(b, `,"worker":`, r.Worker)
	b = appendField(b, `,"run":`, r.Run)
	b = appendBytes(b, `,"result":`, r.Result)
	b = appendField(b, `,"error":`, r.Error)
	return append(b, '}'), nil
}

func appendTarget(b []byte, to *wire.Target) []byte {
	if *to == (wire.Target{}) {
		return b
	}
	b = append(b, `,"to":{`...)
	from := len(b)
	b = appendField(b, `,"worker":`, to.Worker)
	b = appendField(b, `,"label":`, to.Label)
	b = appendField(b, `,"key":`, to.Key)
	b = append(b[:from], b[from+1:]...) // the comma before the first
	return append(b, '}')
}

// appendField appends a field that is left out if it is empty.
func appendField(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendText(append(b, name...), s)
}

func appendBytes(b []byte, name string, data []byte) []byte {
	if len(data) == 0 {
		return b
	}
	b = append(append(b, name...), '"')
	return append(base64.StdEncoding.AppendEncode(b, data), '"')
}

func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if !plain(s[i]) {
			text, _ := json.Marshal(s) //nolint:errchkjson // a string always has a form
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// plain reports whether encoding/json writes a byte of a string as it is.
func plain(c byte) bool {
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

// parseRecord reads a record of any form. Those that formatRecord has written
// are read in a fraction of the time that encoding/json takes.
func parseRecord(data []byte) (wire.Record, error) {
	if r, ok := parsePlain(data); ok {
		return r, nil
	}
	var r wire.Record
	err := json.Unmarshal(data, &r)
	return r, err
}

// parsePlain reads a record as formatRecord writes it, and reports whether it
// is one, with nothing in its strings that is escaped.
func parsePlain(data []byte) (r wire.Record, ok bool) {
	c := cursor{rest: data}
	c.want(`{"state":"`)
	r.State = state(c.text())
	if c.has(`,"payload":"`) {
		r.Payload = c.bytes()
	}
	if c.has(`,"to":{`) {
		r.To = c.target()
	}
	c.want(`,"timeout":`)
	r.Timeout = time.Duration(c.number())
	c.want(`,"max_attempts":`)
	r.MaxAttempts = int(c.number())
	if c.has(`,"backoff":`) {
		r.Backoff = time.Duration(c.number())
	}
	if c.has(`,"submitted":"`) {
		c.bad = r.Submitted.UnmarshalText(c.text()) != nil || c.bad
	}
	if c.has(`,"term":`) {
		r.Term = uint64(c.number())
	}
	if c.has(`,"attempt":`) {
		r.Attempt = int(c.number())
	}
	if c.has(`,"failures":`) {
		r.Failures = int(c.number())
	}
	r.Worker, r.Run = c.field(`,"worker":"`), c.field(`,"run":"`)
	if c.has(`,"result":"`) {
		r.Result = c.bytes()
	}
	r.Error = c.field(`,"error":"`)
	c.want(`}`)
	return r, !c.bad && len(c.rest) == 0
}

// state spares a copy of the states that there are.
func state(text []byte) wire.State {
	for _, s := range [...]wire.State{wire.Queued, wire.Assigned, wire.Done, wire.Failed} {
		if string(text) == string(s) {
			return s
		}
	}
	return wire.State(text)
}

// A cursor reads what is expected. When something else comes, it is bad, and
// what it reads then means nothing.
type cursor struct {
	rest []byte
	bad  bool
}

// has reads s if it is next, and reports whether it is.
func (c *cursor) has(s string) bool {
	if len(c.rest) < len(s) || string(c.rest[:len(s)]) != s {
		return false
	}
	c.rest = c.rest[len(s):]
	return true
}

func (c *cursor) want(s string) { c.bad = !c.has(s) || c.bad }

// text reads what is before a quotation mark, and the mark.
func (c *cursor) text() []byte {
	for i, b := range c.rest {
		if b == '"' {
			text := c.rest[:i]
			c.rest = c.rest[i+1:]
			return text
		}
		if !plain(b) {
			break
		}
	}
	c.bad = true
	return nil
}

// field reads a text that may be absent.
func (c *cursor) field(name string) string {
	if !c.has(name) {
		return ""
	}
	return string(c.text())
}

func (c *cursor) bytes() []byte {
	text := c.text()
	data, err := base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(text))), text)
	c.bad = c.bad || err != nil
	return data
}

func (c *cursor) target() (to wire.Target) {
	first := `"`
	for _, f := range [...]struct {
		name string
		to   *string
	}{{`worker":"`, &to.Worker}, {`label":"`, &to.Label}, {`key":"`, &to.Key}} {
		if c.has(first + f.name) {
			*f.to, first = string(c.text()), `,"`
		}
	}
	c.want(`}`)
	return to
}

// number reads at most 18 digits, so that it fits.
func (c *cursor) number() (n int64) {
	i := 0
	for ; i < len(c.rest) && i < 18 && '0' <= c.rest[i] && c.rest[i] <= '9'; i++ {
		n = 10*n + int64(c.rest[i]-'0')
	}
	// JSON has no zeros before a number.
	c.bad = c.bad || i == 0 || i > 1 && c.rest[0] == '0'
	c.rest = c.rest[i:]
	return n
}
