package boundaries

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages returns the Markdown pages of the repository, and llms.txt.
func pages(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || strings.HasPrefix(name, ".") && name != ".." && name != ".github"):
			return fs.SkipDir
		case !d.IsDir() && (filepath.Ext(name) == ".md" || name == "llms.txt"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?\\n *```")
	inlined   = regexp.MustCompile("`[^`\\n]*`")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"`)
	heading   = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	anchorTag = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	dropped   = regexp.MustCompile(`[^\pL\pN_\- ]`)
	namedLink = regexp.MustCompile("\\[`?([\\w./-]+\\.md)`?\\]\\(([^)#\\s]+)")
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors returns the fragments that a page has on GitHub.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		text := linkText.ReplaceAllString(h[1], "$1")
		found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(text), ""), " ", "-")] = true
	}
	for _, a := range anchorTag.FindAllStringSubmatch(page, -1) {
		found[a[1]] = true
	}
	return found
}

func TestEveryLinkLeadsToAFileAndAHeading(t *testing.T) {
	links := 0
	for _, file := range pages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(inlined.ReplaceAllString(codeBlock.ReplaceAllString(string(text), ""), ""), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, ":") {
				continue // of another site
			}
			links++
			path, fragment, _ := strings.Cut(target, "#")
			to := file
			if path != "" {
				to = filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
			}
			page, err := os.ReadFile(to)
			if info, statErr := os.Stat(to); statErr != nil || !info.IsDir() && err != nil {
				t.Errorf("%s: link to %s: no such file", file, target)
				continue
			}
			if fragment != "" && filepath.Ext(to) == ".md" && !anchors(string(page))[fragment] {
				t.Errorf("%s: link to %s: no such heading", file, target)
			}
		}
	}
	if links < 300 {
		t.Errorf("%d links were found: the pages are not read as they should be", links)
	}
}

// A link whose text is the name of a page leads to that page.
func TestALinkNamesThePageThatItLeadsTo(t *testing.T) {
	for _, file := range pages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedLink.FindAllStringSubmatch(string(text), -1) {
			if filepath.Base(m[1]) != filepath.Base(m[2]) {
				t.Errorf("%s: the link %s leads to %s", file, m[1], m[2])
			}
		}
	}
}

func TestTheIndexesLinkToEveryPage(t *testing.T) {
	for index, dir := range map[string]string{"docs/README.md": "docs", "llms.txt": ""} {
		text, err := os.ReadFile(filepath.Join(root, index))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages(t) {
			path, err := filepath.Rel(filepath.Join(root, dir), page)
			if err != nil {
				t.Fatal(err)
			}
			path = filepath.ToSlash(path)
			under := strings.HasPrefix(filepath.ToSlash(page), filepath.ToSlash(root)+"/docs/")
			if !under || strings.HasSuffix(path, "README.md") || strings.Contains(path, "/adr/") || strings.Contains(path, "migrating/") {
				continue // these have indexes of their own
			}
			if !strings.Contains(string(text), "]("+path) {
				t.Errorf("%s has no link to %s", index, path)
			}
		}
	}
}
