package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"strings"
)

// A component is a module in a CycloneDX list (cyclonedx.org, version 1.6).
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// sbom lists the modules that a program was built from, by what the Go command
// recorded in the program itself: nothing more and nothing less than is linked.
func sbom(program string) ([]byte, error) {
	build, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	parts := []component{{
		Type: "platform", Ref: "go", Name: "Go's standard library", Version: strings.TrimPrefix(build.GoVersion, "go"),
		PURL: "pkg:golang/std@" + strings.TrimPrefix(build.GoVersion, "go"),
	}}
	for _, m := range build.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := moduleComponent("library", m.Path, m.Version)
		// h1 is a SHA-256 over the sums of the module's files
		// (golang.org/x/mod/sumdb/dirhash).
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
			c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}}
		}
		parts = append(parts, c)
	}
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   map[string]any{"component": moduleComponent("application", build.Main.Path, build.Main.Version)},
		"components": parts,
	}, "", "  ")
}

func writeList(program, file string) error {
	list, err := sbom(program)
	if err != nil {
		return err
	}
	return os.WriteFile(file, list, 0o644)
}

func moduleComponent(kind, path, version string) component {
	// The slashes of a module's path stay: they are the namespace of a purl.
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	purl := "pkg:golang/" + strings.Join(segments, "/") + "@" + url.PathEscape(version)
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}
