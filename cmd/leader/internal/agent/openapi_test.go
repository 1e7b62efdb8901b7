package agent

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A document is what of openapi.yaml is compared with the code. That it is a
// sound one as a whole is checked in test/agent.
type document struct {
	Paths      map[string]map[string]any
	Components struct {
		Schemas map[string]*schema
	}
}

type schema struct {
	Properties map[string]struct{ Enum []string }
	Required   []string
	AllOf      []*schema
	Ref        string `json:"$ref"`
}

// whole returns a schema with those that it is made of.
func (d document) whole(name string) (s schema) {
	s.add(d, d.Components.Schemas[name])
	return s
}

func (s *schema) add(d document, part *schema) {
	if name, ok := strings.CutPrefix(part.Ref, "#/components/schemas/"); ok {
		part = d.Components.Schemas[name]
	}
	if s.Properties == nil {
		s.Properties = map[string]struct{ Enum []string }{}
	}
	maps.Copy(s.Properties, part.Properties)
	s.Required = append(s.Required, part.Required...)
	for _, more := range part.AllOf {
		s.add(d, more)
	}
}

func readDocument(t *testing.T) (d document) {
	t.Helper()
	if err := yaml.Unmarshal(openapi, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDescriptionHasEveryRouteAndNoOther(t *testing.T) {
	t.Parallel()
	var described, served []string
	for path, methods := range readDocument(t).Paths {
		for method := range methods {
			if method != "parameters" {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	for _, r := range (&server{}).routes() {
		served = append(served, r.method+" "+r.path)
	}
	slices.Sort(described)
	slices.Sort(served)
	if !slices.Equal(described, served) {
		t.Errorf("described:\n%s\nserved:\n%s", strings.Join(described, "\n"), strings.Join(served, "\n"))
	}
}

func TestDescriptionHasEveryFieldAndNoOther(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	for name, c := range map[string]struct {
		of, without any
		asked       bool // for, by a client, who may leave out what is not demanded
	}{
		"Campaign": {of: wish{}, asked: true}, "Resignation": {of: farewell{}, asked: true}, "ProofRequest": {of: proofWish{}, asked: true},
		"Candidate": {of: status{}}, "Group": {of: group{}}, "Proof": {of: proofAnswer{}}, "Problem": {of: problem{}},
		"CandidateState": {of: status{}, without: times{}},
	} {
		described := d.whole(name)
		want, required := fields(reflect.TypeOf(c.of))
		if c.without != nil {
			left, _ := fields(reflect.TypeOf(c.without))
			isLeft := func(name string) bool { return slices.Contains(left, name) }
			want, required = slices.DeleteFunc(want, isLeft), slices.DeleteFunc(required, isLeft)
		}
		if got := slices.Sorted(maps.Keys(described.Properties)); !slices.Equal(want, got) {
			t.Errorf("%s has the fields %q, and is described with %q", name, want, got)
		}
		slices.Sort(described.Required)
		if !c.asked && !slices.Equal(required, described.Required) {
			t.Errorf("%s always has %q, and is described to have %q", name, required, described.Required)
		}
		for _, field := range described.Required {
			if !slices.Contains(want, field) {
				t.Errorf("%s demands %s, which it has not", name, field)
			}
		}
	}
}

// fields returns the names of a type's fields in JSON, in order, and of those
// that are never left out.
func fields(t reflect.Type) (names, always []string) {
	for f := range t.Fields() {
		if f.Anonymous {
			more, of := fields(f.Type.Elem())
			names, always = append(names, more...), append(always, of...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
		if options == "" {
			always = append(always, name)
		}
	}
	slices.Sort(names)
	slices.Sort(always)
	return names, always
}

func TestDescriptionHasEveryCodeAndNoOther(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	given := regexp.MustCompile(`\b(?:code:|f\.code\b.* = ).*?"(\w+)"`)
	codes := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range given.FindAllSubmatch(text, -1) {
			codes[string(m[1])] = true
		}
	}
	got, want := slices.Sorted(maps.Keys(codes)), readDocument(t).Components.Schemas["Problem"].Properties["code"].Enum
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the codes are\n%q, and are described as\n%q", got, want)
	}
}

func TestDescriptionIsServed(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		if got := l.ask(http.StatusOK, http.MethodGet, "/openapi.yaml", ""); got != string(openapi) {
			t.Error("another description is served")
		}
	})
}

func TestObserversSeeWhoLeads(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		l.ask(http.StatusNotFound, http.MethodGet, "/v1/groups/g", "")
		c := l.campaign("a", `,"address":"host:1","meta":{"zone":"z"},"connection_params":"e30="`)
		c.lead()
		var one group
		if err := json.Unmarshal([]byte(l.ask(http.StatusOK, http.MethodGet, "/v1/groups/g", "")), &one); err != nil {
			t.Fatal(err)
		}
		if one.Leader != "a" || one.Term != c.Term || one.Address != "host:1" || one.Meta["zone"] != "z" || string(one.ConnectionParams) != "{}" || one.LeaseLeft == nil {
			t.Errorf("%+v", one)
		}
		var all []group
		if err := json.Unmarshal([]byte(l.ask(http.StatusOK, http.MethodGet, "/v1/groups", "")), &all); err != nil || len(all) != 1 || all[0].Leader != "a" {
			t.Errorf("%+v, %v", all, err)
		}
		follower := l.campaign("b", "")
		after(ttl / 2)
		follower.keep()
		if s := follower.status; s.State != "FOLLOWER" || s.Trust != 0 || s.Leader == nil || s.Leader.Leader != "a" || s.Leader.Address != "host:1" {
			t.Errorf("the follower gets %+v", s)
		}
		if _, code := l.refused(http.MethodGet, "/v1/groups/a..b", "", nil); code != "invalid" {
			t.Errorf("no group's name: %s", code)
		}
	})
}
