package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The user that an image's program runs as: the nonroot of distroless images,
// which the manifests in deploy name.
const nonroot = 65532

// rootfs is what an image holds: the program, the certificate authorities by
// which it knows servers, a user, and a directory for --dev. No shell, no
// loader, nothing else.
func rootfs(program string) []file {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		// A root with constraints is trusted for some names alone, which a file
		// cannot express.
		if root.Constraint == nil {
			_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return []file{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/:/leader\nnonroot:x:65532:65532:nonroot:/home/nonroot:/leader\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots.Bytes()},
		{name: "home/", mode: 0o755},
		{name: "home/nonroot/", mode: 0o700, uid: nonroot},
		{name: "leader", mode: 0o755, from: program},
		{name: "tmp/", mode: 0o777 | fs.ModeSticky},
	}
}

// A descriptor names a blob, as the OCI image specification has it
// (opencontainers/image-spec, descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// An image is the files of an OCI image layout (image-layout.md), together with
// the manifest.json that docker load reads.
type image struct {
	files []file
	size  int // of what a registry stores
}

func (i *image) blob(mediaType string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	i.files = append(i.files, file{name: "blobs/sha256/" + name, mode: 0o644, content: data})
	i.size += len(data)
	return descriptor{MediaType: mediaType, Digest: "sha256:" + name, Size: len(data)}
}

func (i *image) json(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return i.blob(mediaType, data), err
}

// newImage is an image for linux with one layer. ref is the name that docker
// load gives it, such as leader:v0.1.0.
func newImage(program, arch, ref, version string) (*image, error) {
	var layer, diff bytes.Buffer
	files := rootfs(program)
	if err := gzipped(&layer, files); err != nil {
		return nil, err
	}
	if err := tarball(&diff, files); err != nil {
		return nil, err
	}
	i := &image{}
	at := platform{Architecture: arch, OS: "linux"}
	stored := i.blob("application/vnd.oci.image.layer.v1.tar+gzip", layer.Bytes())
	sum := sha256.Sum256(diff.Bytes())
	config, err := i.json("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": at.Architecture, "os": at.OS, "created": epoch(),
		"config": map[string]any{
			"User": "65532:65532", "Entrypoint": []string{"/leader"}, "Cmd": []string{"--help"}, "WorkingDir": "/home/nonroot",
			"Env": []string{"HOME=/home/nonroot", "PATH=/"},
			"Labels": map[string]string{
				"org.opencontainers.image.title": "leader", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
		"history": []any{map[string]any{"created": epoch(), "created_by": "go run ./test/labs/release snapshot"}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := i.json("application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []descriptor{stored},
	})
	if err != nil {
		return nil, err
	}
	manifest.Platform = &at
	manifest.Annotations = map[string]string{"io.containerd.image.name": "docker.io/library/" + ref, "org.opencontainers.image.ref.name": version}
	err = i.finish(ref, config, stored, manifest)
	return i, err
}

// finish adds what names the blobs.
func (i *image) finish(ref string, config, layer, manifest descriptor) error {
	// In one order, so that equal programs make equal files.
	for _, named := range []struct {
		name  string
		value any
	}{
		{"oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}},
		{"index.json", map[string]any{
			"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []descriptor{manifest},
		}},
		{"manifest.json", []any{map[string]any{"Config": blobFile(config), "RepoTags": []string{ref}, "Layers": []string{blobFile(layer)}}}},
	} {
		data, err := json.Marshal(named.value)
		if err != nil {
			return err
		}
		i.files = append(i.files, file{name: named.name, mode: 0o644, content: data})
	}
	return nil
}

func blobFile(d descriptor) string { return "blobs/" + strings.ReplaceAll(d.Digest, ":", "/") }
