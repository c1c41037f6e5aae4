package v1alpha1

import (
	_ "embed" // the built-in configuration is a file like any other
	"fmt"
)

//go:embed default.yaml
var defaultYAML string

// DefaultFile is the name under which the built-in configuration appears in positions and messages.
const DefaultFile = "built-in-default.yaml"

// DefaultYAML returns a copy of the text of the built-in configuration, used when no other is given.
func DefaultYAML() []byte {
	return []byte(defaultYAML)
}

// Default returns the built-in configuration, decoded as any other. It fails only if it names something that the build
// lacks, which is a mistake in the build.
func Default(known Known) (*Configuration, error) {
	config, warnings, err := Decode(DefaultFile, DefaultYAML(), known)
	if err != nil {
		return nil, fmt.Errorf("built-in configuration: %w", err)
	}
	if len(warnings) > 0 {
		return nil, fmt.Errorf("built-in configuration: %w", &Error{Position: warnings[0].Position, Text: warnings[0].Text})
	}
	return config, nil
}
