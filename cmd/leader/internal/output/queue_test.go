package output

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestQueueDropsUnreadLinesAndCountsThem(t *testing.T) {
	reader, writer := io.Pipe()
	q := NewQueue(writer)
	const line = "a line\n"
	// Twice as much as it holds, while nobody reads.
	for range 2 * maxQueued / len(line) {
		if n, err := q.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	read := make(chan string)
	go func() {
		b, _ := io.ReadAll(reader) // what there is
		read <- string(b)
	}()
	if err := q.Close(time.Minute); err != nil {
		t.Error(err)
	}
	_ = writer.Close()
	text := <-read
	_, said, _ := strings.Cut(text, "leader: ")
	if kept := strings.Count(text, line); kept < maxQueued/len(line)/2 || !strings.Contains(said, " lines were dropped here") {
		t.Errorf("%d lines were kept, and it prints %q", kept, said)
	}
}

func TestAQueueClosesAlthoughNobodyReads(t *testing.T) {
	reader, writer := io.Pipe()
	defer func() { _ = reader.Close() }()
	q := NewQueue(writer)
	if _, err := q.Write([]byte("a line\n")); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(time.Millisecond); err != nil {
		t.Error(err)
	}
	if _, err := q.Write([]byte("more\n")); err == nil {
		t.Error("a closed queue takes a line")
	}
}

func TestAQueueReportsThatItsOutputFails(t *testing.T) {
	reader, writer := io.Pipe()
	_ = reader.Close()
	q := NewQueue(writer)
	_, _ = q.Write([]byte("a line\n")) // it is not known yet
	if err := q.Close(time.Minute); err == nil {
		t.Error("the closed pipe caused no error")
	}
}

func TestStampedLinesBeginWithTheTime(t *testing.T) {
	var b strings.Builder
	if n, err := (Stamped{&b}).Write([]byte("one\ntwo\n")); n != 8 || err != nil {
		t.Error(n, err)
	}
	for line, text := range map[string]string{"one": b.String(), "two": b.String()[strings.Index(b.String(), "one\n")+4:]} {
		stamp, rest, _ := strings.Cut(text, " "+line+"\n")
		if _, err := time.Parse("2006-01-02 15:04:05.000", stamp); err != nil || len(rest) > 30 {
			t.Errorf("%q: %v", text, err)
		}
	}
}
