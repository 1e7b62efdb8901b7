package completion

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A candidate is a word that may stand where the cursor is, and what it means.
type candidate struct {
	word, help string
}

// An answer is what may stand where the cursor is.
type answer struct {
	candidates []candidate
	// files says that the name of a file fits, too; the shell knows those best.
	files bool
}

// lookups find what depends on the machine and on the server.
type lookups struct {
	// groups returns the groups of the bucket that the flags name, none if that takes too long.
	groups func(flags map[string]string) []candidate
	// contexts returns the names of the NATS contexts.
	contexts func() []candidate
}

// A line is what the words before the cursor say.
type line struct {
	node       *kong.Node
	flags      map[string]string // as far as known, by name
	pending    *kong.Flag        // the cursor is at its value
	positional int               // how many stand before the cursor
	onlyArgs   bool              // after --
}

// complete says what may stand in place of the last of the words, which are those after the program's name.
func complete(app *kong.Node, words []string, look lookups) answer {
	if len(words) == 0 {
		words = []string{""}
	}
	before, word := words[:len(words)-1], words[len(words)-1]
	l := read(app, before)
	switch name, value, assigned := strings.Cut(word, "="); {
	case l.pending != nil:
		return l.value(l.pending.Value, word, "", look)
	case !l.onlyArgs && assigned && strings.HasPrefix(name, "--"):
		if flag := l.flag(name); flag != nil && takesValue(flag) {
			return l.value(flag.Value, value, name+"=", look)
		}
		return answer{}
	case !l.onlyArgs && strings.HasPrefix(word, "-"):
		return answer{candidates: starting(word, l.flagNames(word))}
	case !l.onlyArgs && len(l.node.Children) > 0:
		return l.command(word, look)
	case l.positional < len(l.node.Positional):
		return l.value(l.node.Positional[l.positional], word, "", look)
	case cumulative(l.node.Positional):
		return l.value(l.node.Positional[len(l.node.Positional)-1], word, "", look)
	default:
		return answer{}
	}
}

// command completes the name of a command, and what the command takes that needs no name.
func (l *line) command(word string, look lookups) answer {
	a := answer{candidates: starting(word, commands(l.node))}
	if c := l.node.DefaultCmd; c != nil && len(c.Positional) > 0 {
		more := l.value(c.Positional[0], word, "", look)
		a.candidates, a.files = append(a.candidates, more.candidates...), more.files
	}
	return a
}

// read follows the words from command to command.
func read(app *kong.Node, words []string) *line {
	l := &line{node: app, flags: map[string]string{}}
	for _, word := range words {
		switch {
		case l.pending != nil:
			l.flags[l.pending.Name] = word
			l.pending = nil
		case word == "--" && !l.onlyArgs:
			l.onlyArgs = true
		case l.onlyArgs || !strings.HasPrefix(word, "-") || word == "-":
			l.argument(word)
		default:
			l.readFlag(word)
		}
	}
	return l
}

func (l *line) argument(word string) {
	for _, child := range l.node.Children {
		if !l.onlyArgs && (child.Name == word || slices.Contains(child.Aliases, word)) {
			l.node = child
			return
		}
	}
	if l.node.DefaultCmd != nil {
		l.node = l.node.DefaultCmd // named or not
	}
	l.positional++
}

func (l *line) readFlag(word string) {
	name, value, assigned := strings.Cut(word, "=")
	flag := l.flag(name)
	switch {
	case flag == nil:
	case assigned:
		l.flags[flag.Name] = value
	case takesValue(flag):
		l.pending = flag
	default:
		l.flags[flag.Name] = "true"
	}
}

// flag returns the flag of that name, --name or -n, or the last of a bundle like -wo.
func (l *line) flag(name string) *kong.Flag {
	long, isLong := strings.CutPrefix(name, "--")
	for flag := range l.allFlags {
		switch {
		case isLong && (flag.Name == long || slices.Contains(flag.Aliases, long)):
			return flag
		case !isLong && flag.Short != 0 && strings.HasSuffix(name, string(flag.Short)):
			return flag
		}
	}
	return nil
}

// allFlags yields the flags of the command, then those of the commands above it.
func (l *line) allFlags(yield func(*kong.Flag) bool) {
	first := l.node
	if first.DefaultCmd != nil {
		first = first.DefaultCmd
	}
	for node := first; node != nil; node = node.Parent {
		for _, flag := range node.Flags {
			if !flag.Hidden && !yield(flag) {
				return
			}
		}
	}
}

// flagNames returns the flags that are not there yet, long ones only unless nothing but a dash is.
func (l *line) flagNames(word string) (names []candidate) {
	for flag := range l.allFlags {
		if _, given := l.flags[flag.Name]; given && !flag.IsCumulative() {
			continue
		}
		names = append(names, candidate{"--" + flag.Name, flag.Help})
		if flag.Short != 0 && !strings.HasPrefix(word, "--") {
			names = append(names, candidate{"-" + string(flag.Short), flag.Help})
		}
	}
	return names
}

func takesValue(flag *kong.Flag) bool { return !flag.IsBool() && !flag.IsCounter() }

func commands(node *kong.Node) (names []candidate) {
	for _, child := range node.Children {
		if !child.Hidden {
			names = append(names, candidate{child.Name, child.Help})
		}
	}
	return names
}

func cumulative(args []*kong.Positional) bool {
	return len(args) > 0 && args[len(args)-1].IsCumulative()
}

// value completes a value of a flag or an argument, of which word is there. prefix stands before each answer.
func (l *line) value(v *kong.Value, word, prefix string, look lookups) answer {
	a := answer{files: isFile(v)}
	switch {
	case v.Enum != "":
		for _, one := range v.EnumSlice() {
			a.candidates = append(a.candidates, candidate{word: one})
		}
	case v.Flag != nil && v.Name == "context":
		a.candidates = look.contexts()
	case v.Flag == nil && v.Name == "command": // of leader help
		a.candidates = commands(l.root())
	case v.Flag == nil && isGroup(v), v.Flag != nil && v.Name == "group":
		a.candidates = look.groups(l.flags)
	}
	a.candidates = starting(word, a.candidates)
	for i := range a.candidates {
		a.candidates[i].word = prefix + a.candidates[i].word
	}
	return a
}

// root is the program itself.
func (l *line) root() *kong.Node {
	node := l.node
	for node.Parent != nil {
		node = node.Parent
	}
	return node
}

// isGroup goes by the name, which is what people read in the help.
func isGroup(v *kong.Value) bool { return v.Name == "group" || v.Name == "pattern" }

// isFile goes by the type, and takes what leader run starts for a file.
func isFile(v *kong.Value) bool {
	switch v.Tag.Type {
	case "path", "existingfile", "existingdir", "filecontent":
		return true
	}
	return v.Flag == nil && v.Name == "program"
}

// starting returns those that begin with the word, without empty ones.
func starting(word string, all []candidate) []candidate {
	return slices.DeleteFunc(all, func(c candidate) bool { return c.word == "" || !strings.HasPrefix(c.word, word) })
}
