package process

import (
	"os"
	"os/exec"
	"testing"
)

func TestACgroupIsFoundAmongTheMounts(t *testing.T) {
	const (
		unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
		hybrid  = "31 23 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
			"32 31 0:28 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n" +
			"33 31 0:29 / /sys/fs/cgroup/unified rw shared:10 master:2 - cgroup2 cgroup2 rw\n"
		bound = "40 23 0:26 /app.slice /mnt/app rw - cgroup2 cgroup2 rw\n"
	)
	for name, c := range map[string]struct{ own, mounts, want string }{
		"alone":                   {"0::/user.slice/a.service\n", unified, "/sys/fs/cgroup/user.slice/a.service"},
		"root":                    {"0::/\n", unified, "/sys/fs/cgroup"},
		"beside version 1":        {"4:cpu:/x\n0::/b\n", hybrid, "/sys/fs/cgroup/unified/b"},
		"a part of it is mounted": {"0::/app.slice/c\n", bound, "/mnt/app/c"},
		"another part is":         {"0::/user.slice/c\n", bound, ""},
		"outside of a namespace":  {"0::/../d\n", unified, ""},
		"version 1 alone":         {"4:cpu:/x\n", hybrid, ""},
		"no mount":                {"0::/e\n", "", ""},
	} {
		got, err := cgroupDir([]byte(c.own), []byte(c.mounts))
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestWithoutACgroupNothingIsDoneAndNobodyIsThere(t *testing.T) {
	var none Cgroup
	none.Remove()
	if made, err := Cgroups("").Make(); made != none || err != nil {
		t.Errorf("made %q, %v", made, err)
	}
	if none.Kill() || none.Populated() || none.holds(1) {
		t.Error("there is one")
	}
	self, _ := readStat(statFile(os.Getpid()))
	if all := none.Excuse([]Survivor{{PID: self.pid, Start: self.start}}); len(all) != 1 {
		t.Errorf("excused: %v", all)
	}
	if gone := Cgroup("/no/such/cgroup"); gone.Kill() || gone.Populated() {
		t.Error("one that is gone has processes")
	}
}

// The kill of a cgroup may end a process after it was found and before its
// cgroup is read. The cgroup of a process that has ended cannot be read.
func TestEndedProcessIsNotReportedAsUnkillable(t *testing.T) {
	waits := exec.CommandContext(t.Context(), "/bin/cat")
	stdin, err := waits.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := waits.Start(); err != nil {
		t.Fatal(err)
	}
	p, ok := readStat(statFile(waits.Process.Pid))
	if !ok {
		t.Fatal("a process that waits for its input is not there")
	}
	ends := Survivor{PID: p.pid, Start: p.start, Comm: p.comm}
	elsewhere := Cgroup(t.TempDir())
	if all := elsewhere.Excuse([]Survivor{ends}); len(all) != 1 {
		t.Errorf("a process of another cgroup is reported: %v", all)
	}
	_ = stdin.Close()
	if err := waits.Wait(); err != nil {
		t.Fatal(err)
	}
	taken := Survivor{PID: os.Getpid(), Start: "1"} // its number is given to another
	if all := elsewhere.Excuse([]Survivor{ends, taken}); len(all) > 0 {
		t.Errorf("processes that have ended are reported: %v", all)
	}
}
