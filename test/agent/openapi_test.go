// Package agent_test judges openapi.yaml, which leader agent serves, and whether
// its answers are as described there.
package agent_test

import (
	"os"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestDescriptionOfTheAgentIsSound(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../cmd/leader/internal/agent/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableSchemaFormatValidation()); err != nil {
		t.Fatal(err)
	}
	if n := doc.Paths.Len(); n < 8 {
		t.Errorf("%d paths were read", n)
	}
}
