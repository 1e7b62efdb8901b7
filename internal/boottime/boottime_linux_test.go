package boottime

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// timerfds counts the descriptors of timers that the process has open.
func timerfds(t *testing.T) (n int) {
	t.Helper()
	entries, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(entries) == 0 {
		t.Skip("no /proc here: ", err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(e); err == nil && to == "anon_inode:[timerfd]" {
			n++
		}
	}
	return n
}

func TestAThousandTimersShareOneDescriptor(t *testing.T) {
	if a, ok := openAlarm().(*timerfd); !ok {
		t.Skip("this kernel refuses a timerfd")
	} else {
		a.close()
	}
	var timers [1000]*Timer
	for i := range timers {
		timers[i] = New(func() {})
		timers[i].Set(Now() + int64(time.Hour) - int64(i))
	}
	if n := timerfds(t); n != 1 {
		t.Errorf("%d descriptors", n)
	}
	for _, timer := range timers {
		timer.Stop()
	}
	if n := timerfds(t); n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}

// Where no descriptor is to be had, the ticker has to do.
func TestWithoutADescriptorThereIsATicker(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}()
	fired := make(chan struct{}, 1)
	timer := New(func() { fired <- struct{}{} })
	timer.Set(Now() + 1)
	await(t, "timer", fired)
}
