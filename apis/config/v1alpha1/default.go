package v1alpha1

import _ "embed" // the built-in configuration is a file like any other

//go:embed default.yaml
var defaultYAML string

// DefaultFile is the name under which the built-in configuration appears in positions and messages.
const DefaultFile = "built-in-default.yaml"

// DefaultYAML returns a copy of the text of the built-in configuration, used when no other is given.
func DefaultYAML() []byte {
	return []byte(defaultYAML)
}
