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
	Hand struct {
		To     string `help:"Whom."`
		Server string `help:"Where."`
		Group  string `arg:""`
	} `cmd:"" help:"Over."`
	Drain struct {
		Server   string `help:"Where."`
		Instance string `arg:""`
	} `cmd:"" hidden:""`
	Undrain struct {
		Instance string `arg:""`
	} `cmd:"" hidden:""`
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
	Help struct {
		Command string `arg:"" optional:""`
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
		{"", "list hand run history help"},
		{"help h", "hand history help"},
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
		{"list --output=j", "json"},
		{"list --watch=t", ""},
		{"list --server x ", "reports@x jobs.eu@x"},
		{"list --server=x j", "jobs.eu@x"},
		{"list --context ", "staging"},
		{"list --creds ", ":files"},
		{"list --creds=a", ":files"},
		{"list --nonsense ", ":files"},
		{"list a b", ""},
		{"run ", "reports@ jobs.eu@"},
		{"hand reports --to ", "w1-of-reports w2@"},
		{"hand reports --server x --to w2", "w2@x"},
		{"hand --to w", ""},
		{"drain --server x ", "w1@x"},
		{"undrain ", "w2"},
		{"undrain w2 ", ""},
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
			groups: func(flags map[string]string) []string {
				at := "@" + flags["server"]
				return []string{"reports" + at, "jobs.eu" + at}
			},
			candidates: func(group string, flags map[string]string) []string {
				return []string{"w1-of-" + group, "w2@" + flags["server"] + "\tfollower", "w2@" + flags["server"] + "\tleader"}
			},
			leaders:  func(flags map[string]string) []string { return []string{"w1@" + flags["server"]} },
			drained:  func(map[string]string) []string { return []string{"w2"} },
			contexts: func() []string { return []string{"staging"} },
		}
		found, files := look.complete(modelOf(t), strings.Split(c.line, " "))
		if got := words(found, files); !slices.Equal(got, slices.Sorted(slices.Values(strings.Fields(c.want)))) {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}

// words returns what is offered without what it means, in order, and :files if
// the shell is to add the names of files.
func words(all []string, files bool) (found []string) {
	for _, f := range all {
		word, _, _ := strings.Cut(f, "\t")
		found = append(found, word)
	}
	if files {
		found = append(found, ":files")
	}
	slices.Sort(found)
	return found
}
