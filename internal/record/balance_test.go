package record

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

func TestRequestToBalanceNamesWhoAsksAndHowManyGroupsItLeads(t *testing.T) {
	for text, want := range map[string]bool{
		`{"op":"balance","term":7,"successor":"b","have":3}`:  true,
		`{"op":"balance","term":7,"successor":"b"}`:           true,
		`{"op":"balance","term":7,"have":3}`:                  false,
		`{"op":"balance","term":7,"successor":"b","have":-1}`: false,
	} {
		c, ok := ReadControl(store.Entry{Key: "_ctl.g", Revision: 1, Value: []byte(text)})
		if ok != want {
			t.Errorf("%s: %+v, %v", text, c, ok)
		}
	}
}
