package record

import "github.com/seed-ff2cb582/leader/store"

// Draft is NewDraft of any record.
func (r Record) Draft(expected uint64) (*Draft, error) {
	d := &Draft{Write: store.Write{Expected: expected}, record: r}
	return d.encoded()
}
