package environ_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
)

type flags struct {
	Name    string        `env:"ENVIRON_TEST_NAME" default:"none" help:"A name."`
	Timeout time.Duration `env:"ENVIRON_TEST_FIRST,ENVIRON_TEST_SECOND" help:"A time."`
}

// parse parses a command line in an environment.
func parse(t *testing.T, vars map[string]string, args ...string) (flags, string, error) {
	t.Helper()
	env := environ.Env(func(name string) (string, bool) {
		value, set := vars[name]
		return value, set
	})
	var cli struct {
		Do flags `cmd:""`
	}
	var out bytes.Buffer
	parser, err := kong.New(&cli, kong.Name("test"), kong.Writers(&out, &out), kong.Exit(func(int) {}), env)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"do"}, args...))
	return cli.Do, out.String(), err
}

func TestFlagsTakeTheirValuesFromTheGivenEnvironmentAlone(t *testing.T) {
	t.Setenv("ENVIRON_TEST_NAME", "of the process")
	for what, c := range map[string]struct {
		vars map[string]string
		args []string
		want flags
	}{
		"none":           {nil, nil, flags{Name: "none"}},
		"a variable":     {map[string]string{"ENVIRON_TEST_NAME": "given"}, nil, flags{Name: "given"}},
		"an empty one":   {map[string]string{"ENVIRON_TEST_NAME": ""}, nil, flags{}},
		"a command line": {map[string]string{"ENVIRON_TEST_NAME": "given"}, []string{"--name=typed"}, flags{Name: "typed"}},
		"the first set":  {map[string]string{"ENVIRON_TEST_SECOND": "2s"}, nil, flags{Name: "none", Timeout: 2 * time.Second}},
	} {
		if got, _, err := parse(t, c.vars, c.args...); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, c.want)
		}
	}
}

func TestVariableThatDoesNotParseIsNamed(t *testing.T) {
	t.Parallel()
	_, _, err := parse(t, map[string]string{"ENVIRON_TEST_FIRST": "soon"})
	if err == nil || !strings.Contains(err.Error(), `(from envar ENVIRON_TEST_FIRST="soon")`) || !strings.Contains(err.Error(), "--timeout") {
		t.Error(err)
	}
}

func TestHelpNamesVariablesWithoutTheirValues(t *testing.T) {
	t.Parallel()
	_, out, _ := parse(t, map[string]string{"ENVIRON_TEST_NAME": "secret"}, "--help")
	for _, want := range []string{"A name ($ENVIRON_TEST_NAME).", "A time ($ENVIRON_TEST_FIRST, $ENVIRON_TEST_SECOND)."} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "secret") {
		t.Error(out)
	}
}
