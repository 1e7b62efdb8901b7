// Protogen compiles a file of protocol buffers and writes the Go code of its
// messages beside it. It needs no compiler except Go's:
//
//	cd tools && GOWORK=off go run ./protogen DIRECTORY FILE.proto
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	gengo "google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "protogen: want a directory and a file in it")
		os.Exit(2)
	}
	if err := generate(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, dir, file string) error {
	c := protocompile.Compiler{
		Resolver: &protocompile.SourceResolver{ImportPaths: []string{dir}}, SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(ctx, file)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{file}, Parameter: new("paths=source_relative")}
	for _, f := range files {
		request.ProtoFile = append(request.ProtoFile, protodesc.ToFileDescriptorProto(f))
	}
	plugin, err := protogen.Options{}.New(request)
	if err != nil {
		return err
	}
	for _, f := range plugin.Files {
		if f.Generate {
			gengo.GenerateFile(plugin, f)
		}
	}
	response := plugin.Response()
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, f := range response.GetFile() {
		if err := os.WriteFile(filepath.Join(dir, f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
