package main

import "testing"

func TestPhrasesAreFoundInCommentsStringsAndNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"// It is of\n// its own.\n":                                "of ours",
		"var a = \"nobody is no leader\"\n":                         "is no",
		"var a = `two lines: that\n\tof the other`\n":               "that of",
		"func TestHoleTermHasATokenOfItsOwn(t *testing.T) {}\n":     "of ours",
		"func TestThatAPeerIsGoneIsNoticed(t *testing.T) {}\n":      "What/Who…",
		"func TestNATSServerIsAsked(t *testing.T) {}\n":             "",
		"func Told(s string) string { return \"there is no one\" }": "",
	} {
		a := &area{phrases: phrases(), found: map[string][]string{}}
		a.count("a_test.go", []byte("package a\n\n"+text))
		for _, p := range a.phrases {
			if found := len(a.found[p.name]); found != 0 != (p.name == want) {
				t.Errorf("%q: %d times %s, want %q alone", text, found, p.name, want)
			}
		}
	}
}

func TestSentenceSplitsANameIntoWords(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ACopyOfAMachineIsMarked": "A copy of a machine is marked",
		"NATSServerIsAsked":       "Nats server is asked",
	} {
		if got := sentence(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
