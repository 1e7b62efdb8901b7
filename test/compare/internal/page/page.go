package page

import "github.com/seed-ff2cb582/leader/test/compare/internal/figure"

// Write writes the page, the picture and the README's block below the root of the repository.
func Write(root string, r *figure.Report, verdicts []figure.Verdict) error { return nil }
