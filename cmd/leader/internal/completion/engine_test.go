package completion

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// A grammar has one of each thing that there is to complete.
type grammar struct {
	List struct {
		Output  string `short:"o" enum:"table,json" default:"table" help:"How to print."`
		Watch   bool   `short:"w" help:"Follow."`
		Server  string `short:"s" help:"Where."`
		Context string `help:"Which."`
		Creds   string `type:"existingfile" help:"Who."`
		Secret  string `hidden:""`
		Pattern string `arg:"" optional:""`
	} `cmd:"" aliases:"ls" help:"List."`
	Run struct {
		Group   string   `arg:""`
		Program []string `arg:""`
	} `cmd:"" help:"Run."`
	History struct {
		Show struct {
			Since string `help:"From when."`
			Group string `arg:""`
		} `cmd:"" default:"withargs"`
		Enable struct{} `cmd:"" help:"Keep it."`
	} `cmd:""`
	Worker struct{} `cmd:"" hidden:""`
}

func modelOf(t *testing.T) *kong.Node {
	t.Helper()
	parser, err := kong.New(&grammar{}, kong.Name("leader"))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model.Node
}

func TestWordsFitWhereTheCursorIs(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "list run history"},
		{"l", "list"},
		{"worker", ""},
		{"-", "--help -h"},
		{"list -", "--output -o --watch -w --server -s --context --creds --help -h"},
		{"list --o", "--output"},
		{"ls --w", "--watch"},
		{"list -w --w", ""},
		{"list -o ", "table json"},
		{"list -wo j", "json"},
		{"list --output j", "json"},
		{"list --output=j", "--output=json"},
		{"list --watch=t", ""},
		{"list --server x ", "reports@x jobs.eu@x"},
		{"list --server=x j", "jobs.eu@x"},
		{"list --context ", "staging"},
		{"list --creds ", ":files"},
		{"list --creds=a", ":files"},
		{"list --nonsense ", "reports@ jobs.eu@"},
		{"list a b", ""},
		{"run ", "reports@ jobs.eu@"},
		{"run reports ", ":files"},
		{"run reports -- ", ":files"},
		{"run reports -- prog --wat", ":files"},
		{"run -- r", "reports@"},
		{"history ", "enable show reports@ jobs.eu@"},
		{"history e", "enable"},
		{"history --s", "--since"},
		{"history reports --s", "--since"},
		{"history show r", "reports@"},
		{"history enable ", ""},
	} {
		look := lookups{
			groups: func(flags map[string]string) []candidate {
				at := "@" + flags["server"]
				return []candidate{{word: "reports" + at}, {word: "jobs.eu" + at}}
			},
			contexts: func() []candidate { return []candidate{{word: "staging"}} },
		}
		a := complete(modelOf(t), strings.Split(c.line, " "), look)
		var got []string
		if a.files {
			got = append(got, ":files")
		}
		for _, one := range a.candidates {
			got = append(got, one.word)
		}
		want := strings.Fields(c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", c.line, got, want)
		}
	}
}
