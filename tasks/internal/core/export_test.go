package core

// Early returns how many reports wait for the open tasks to be known, and how
// long their results and errors are together.
func (l *Leader) Early() (reports, bytes int) {
	for _, s := range l.early.said {
		reports += len(s.reports)
		for _, r := range s.reports {
			bytes += len(r.Result) + len(r.Error)
		}
	}
	return reports, bytes
}
