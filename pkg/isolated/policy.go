package isolated

import (
	"fmt"
	"slices"
	"strings"
)

// SMT says how threads of one physical core are treated; the value of SMTAnnotation.
type SMT string

const (
	// PreferFullCore takes whole cores first and breaks as few as possible. It rejects nothing.
	PreferFullCore SMT = "prefer-full-core"
	// RequireFullCore takes only whole cores.
	RequireFullCore SMT = "require-full-core"
	// OnePerCore uses one thread of each core and leaves the other idle; both are held, and both are charged.
	OnePerCore SMT = "one-per-core"
)

// NUMA says whether all ids must be of one NUMA node; the value of NUMAAnnotation.
type NUMA string

const (
	// NUMAPreferred takes as few NUMA nodes as possible.
	NUMAPreferred NUMA = "preferred"
	// NUMARequired takes one.
	NUMARequired NUMA = "required"
)

// Policies say how a pod's ids are chosen. The zero Policies prefer full cores and few NUMA nodes.
type Policies struct {
	SMT  SMT
	NUMA NUMA
}

// Strict reports whether a policy may refuse enough free ids.
func (p Policies) Strict() bool {
	return p.NUMA == NUMARequired || p.SMT == RequireFullCore || p.SMT == OnePerCore
}

// oneOf reads an annotation that has few values; absent is the first of them.
func oneOf[T ~string](annotations map[string]string, key string, values ...T) (T, error) {
	text, there := annotations[key]
	switch {
	case !there:
		return values[0], nil
	case slices.Contains(values, T(text)):
		return T(text), nil
	}
	names := make([]string, len(values))
	for i, value := range values {
		names[i] = string(value)
	}
	return values[0], fmt.Errorf("%s is %q, and must be one of %s", key, text, strings.Join(names, ", "))
}

// policiesOf returns the pod's policies; the error is for the user.
func policiesOf(annotations map[string]string) (p Policies, err error) {
	if p.SMT, err = oneOf(annotations, SMTAnnotation, PreferFullCore, RequireFullCore, OnePerCore); err != nil {
		return p, err
	}
	p.NUMA, err = oneOf(annotations, NUMAAnnotation, NUMAPreferred, NUMARequired)
	return p, err
}
