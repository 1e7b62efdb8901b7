package core

// Early returns how many reports wait for the open tasks to be known, and how
// many bytes are of any length in them.
func (l *Leader) Early() (reports, bytes int) {
	for _, s := range l.early.said {
		reports += len(s.reports)
		for _, r := range s.reports[:cap(s.reports)] { // what memory keeps
			bytes += len(s.run) + len(r.ID) + len(r.Result) + len(r.Error)
		}
	}
	return reports, bytes
}
