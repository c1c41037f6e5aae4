package groups

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tutti-sched/tutti/pkg/model"
)

// fields reads an object whose schema belongs to others. What has another type than it should is a contradiction and counts as
// absent; the first one is kept.
type fields struct {
	object        map[string]any
	contradiction string
}

func (f *fields) contradict(format string, args ...any) {
	if f.contradiction == "" {
		f.contradiction = fmt.Sprintf(format, args...)
	}
}

// value returns what a path leads to; nil when there is nothing.
func (f *fields) value(path ...string) any {
	var at any = f.object
	for i, name := range path {
		inner, ok := at.(map[string]any)
		if !ok {
			f.contradict("%s is %s, it must be an object", strings.Join(path[:i], "."), typeOf(at))
			return nil
		}
		if at = inner[name]; at == nil {
			return nil
		}
	}
	return at
}

// integer returns a whole number of 32 bits; 0 when there is none.
func (f *fields) integer(path ...string) int32 {
	switch value := f.value(path...).(type) {
	case nil:
	case int64:
		if value >= math.MinInt32 && value <= math.MaxInt32 {
			return int32(value)
		}
		f.contradict("%s is %d, it must be a number of 32 bits", strings.Join(path, "."), value)
	default:
		f.contradict("%s is %s, it must be a whole number", strings.Join(path, "."), typeOf(value))
	}
	return 0
}

// maxResources is how many resources a list may name, and maxResourceName how long a name may be, in bytes.
const (
	maxResources    = 64
	maxResourceName = 317
)

// resources returns a list of amounts; nil when there is none.
func (f *fields) resources(path ...string) corev1.ResourceList {
	at := strings.Join(path, ".")
	switch value := f.value(path...).(type) {
	case nil:
	case map[string]any:
		if len(value) > maxResources {
			f.contradict("%s names %d resources, at most %d are supported", at, len(value), maxResources)
			return nil
		}
		list := corev1.ResourceList{}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			amount, err := resource.ParseQuantity(fmt.Sprint(value[name]))
			if err != nil || len(name) > maxResourceName {
				f.contradict("%s.%s is no amount of a resource", at, model.Brief(name, maxQuoted))
				return nil
			}
			list[corev1.ResourceName(name)] = amount
		}
		return list
	default:
		f.contradict("%s is %s, it must be a list of amounts by resource", at, typeOf(value))
	}
	return nil
}

// typeOf names the type of a value of JSON.
func typeOf(value any) string {
	switch value.(type) {
	case string:
		return "a text"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "of no type that is known"
}
