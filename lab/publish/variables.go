package publish

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// The variables that a release reads. release.env.example explains them, and names others that stand in texts alone.
const (
	// Registry is where images and charts are pushed: a host and a path.
	Registry   = "REGISTRY"
	repository = "REPOSITORY"
	builder    = "BUILDER"
)

// Variables are what a project has at its forge only, and this repository does not state.
type Variables struct {
	names  []string
	values map[string]string
}

// ReadVariables returns the variables that release.env.example in the folder root names. A value is that of the environment, else
// that of the file release.env, which need not be there.
func ReadVariables(root string) (Variables, error) {
	v := Variables{values: map[string]string{}}
	for _, file := range []string{"release.env.example", "release.env"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if errors.Is(err, fs.ErrNotExist) && file == "release.env" {
			continue
		}
		if err != nil {
			return v, fmt.Errorf("variables: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			name, value, found := strings.Cut(line, "=")
			switch _, known := v.values[name]; {
			case line == "" || strings.HasPrefix(line, "#"):
				continue
			case !found || !known && file == "release.env":
				return v, fmt.Errorf("%s: %q sets no variable that release.env.example names", file, line)
			case !known:
				v.names = append(v.names, name)
			}
			v.values[name] = value
		}
	}
	for _, name := range v.names {
		v.values[name] = cmp.Or(os.Getenv(name), v.values[name])
	}
	return v, nil
}

// Unset returns the names of the variables without a value, in the order of release.env.example.
func (v Variables) Unset() (names []string) {
	for _, name := range v.names {
		if v.values[name] == "" {
			names = append(names, name)
		}
	}
	return names
}

// Get returns the value of a variable. One that is not set stands for itself, as ${NAME}.
func (v Variables) Get(name string) string { return cmp.Or(v.values[name], "${"+name+"}") }

// With returns the variables with another value of one that release.env.example names.
func (v Variables) With(name, value string) Variables {
	v.values = maps.Clone(v.values)
	v.values[name] = value
	return v
}

// fill returns a file with the fields of data in it; the function variable returns the value of a variable.
func (v Variables) fill(file string, data any) ([]byte, error) {
	text, err := template.New(filepath.Base(file)).Option("missingkey=error").Funcs(template.FuncMap{"variable": v.Get}).ParseFiles(file)
	if err != nil {
		return nil, err
	}
	var filled bytes.Buffer
	err = text.Execute(&filled, data)
	return filled.Bytes(), err
}
