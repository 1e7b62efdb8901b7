package demo

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestScriptsAreRead(t *testing.T) {
	got, err := ParseScript(" 2s crash;6s   freeze; ; 6s cut;1m delete;")
	want := Script{{2 * time.Second, Crash}, {6 * time.Second, Freeze}, {6 * time.Second, Cut}, {time.Minute, Delete}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestScriptsReadWhatTheyPrint(t *testing.T) {
	for _, last := range [][]Fault{nil, {Restart}, {Kill, Return}} {
		s := defaultScript(1500*time.Millisecond, last...)
		again, err := ParseScript(s.String())
		if err != nil || !slices.Equal(s, again) {
			t.Errorf("%v became %v, %v", s, again, err)
		}
	}
}

func TestEveryBadPartOfAScriptIsNamed(t *testing.T) {
	_, err := ParseScript("2s crsh; x freeze; 5s cut; 3s resign; boo; 1s crash now; -1s cut")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{`"2s crsh"`, `"x freeze"`, `"3s resign"`, `"boo"`, `"1s crash now"`, `"-1s cut"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s is not named in:\n%v", part, err)
		}
	}
	if strings.Contains(err.Error(), `"5s cut"`) {
		t.Errorf("a good part is blamed:\n%v", err)
	}
}

func TestAnEmptyScriptIsRefused(t *testing.T) {
	for _, text := range []string{"", " ; "} {
		if _, err := ParseScript(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestMembersMayBeKilledAndReturn(t *testing.T) {
	c := Command{Workers: 1, Key: "demo", Bucket: "demo", TTL: time.Second, Store: "quorum", Script: "1s kill; 1s kill; 1s return; 1s crash; 1s kill; 1s return; 1s return"}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestScriptsAreCheckedAgainstTheOtherFlags(t *testing.T) {
	for name, change := range map[string]func(*Command){
		"beyond --for":          func(c *Command) { c.Script, c.For = "5s crash", 4*time.Second },
		"restart of a stranger": func(c *Command) { c.Script, c.Server = "1s restart", "nats://example.com" },
		"restart of a quorum":   func(c *Command) { c.Script, c.Store = "1s restart", "quorum" },
		"no quorum":             func(c *Command) { c.Script = "1s kill" },
		"kill of all members":   func(c *Command) { c.Script, c.Store = "1s kill; 2s kill; 3s kill", "quorum" },
		"crash without members": func(c *Command) { c.Script, c.Store = "1s kill; 2s kill; 3s crash", "quorum" },
		"return of nobody":      func(c *Command) { c.Script, c.Store = "1s kill; 2s return; 3s return", "quorum" },
		"port of a stranger":    func(c *Command) { c.Port, c.Server = 4222, "nats://example.com" },
		"no worker":             func(c *Command) { c.Workers = 0 },
		"TTL too short":         func(c *Command) { c.TTL = time.Millisecond },
		"group":                 func(c *Command) { c.Key = "a b" },
	} {
		c := Command{Workers: 1, Key: "demo", Bucket: "demo", TTL: time.Second}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
