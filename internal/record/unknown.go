package record

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// MarshalJSON writes the unknown fields beside the known ones.
func (c Control) MarshalJSON() ([]byte, error) {
	type plain Control
	return withUnknown(plain(c), c.Unknown)
}

// UnmarshalJSON keeps what it does not know.
func (c *Control) UnmarshalJSON(b []byte) error {
	type plain Control
	var err error
	if err = json.Unmarshal(b, (*plain)(c)); err == nil {
		c.Unknown, err = unknown(b, *c)
	}
	return err
}

// MarshalJSON writes the unknown fields beside the known ones.
func (p Pause) MarshalJSON() ([]byte, error) {
	type plain Pause
	return withUnknown(plain(p), p.Unknown)
}

// UnmarshalJSON keeps what it does not know.
func (p *Pause) UnmarshalJSON(b []byte) error {
	type plain Pause
	var err error
	if err = json.Unmarshal(b, (*plain)(p)); err == nil {
		p.Unknown, err = unknown(b, *p)
	}
	return err
}

// withUnknown returns the JSON object of v with the members of another.
func withUnknown(v any, others string) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil || others == "" {
		return b, err
	}
	if string(b) == "{}" {
		return []byte(others), nil
	}
	b[len(b)-1] = ','
	return append(b, others[1:]...), nil
}

// unknown returns the members of a JSON object that are not fields of v, as an
// object, or "" if there are none.
func unknown(object []byte, v any) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return "", err
	}
	known := fields(reflect.TypeOf(v))
	for name := range members {
		// As encoding/json compares names: a name that it took for a field's
		// must not be present twice.
		if slices.ContainsFunc(known, func(field string) bool { return strings.EqualFold(field, name) }) {
			delete(members, name)
		}
	}
	if len(members) == 0 {
		return "", nil
	}
	b, err := json.Marshal(members)
	return string(b), err
}

// fields returns the names of a struct's fields in JSON.
func fields(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}
