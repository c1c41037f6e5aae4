package sources

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/pkg/model"
)

// fields reads an object whose schema belongs to others. What has another type than it should is a contradiction and counts as
// absent; the first one is kept.
type fields struct {
	object map[string]any
	// at is where in the whole object this one is, with a dot behind it, and whole that object's fields; empty and nil of the whole.
	at            string
	whole         *fields
	contradiction string
}

// contradict takes note of a field that cannot be read, by its path.
func (f *fields) contradict(format string, args ...any) {
	whole := cmp.Or(f.whole, f)
	if whole.contradiction == "" {
		whole.contradiction = f.at + fmt.Sprintf(format, args...)
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

// as returns what a path leads to, which must be of the type that what names; zero when there is nothing.
func as[T any](f *fields, what string, path ...string) (value T) {
	switch found := f.value(path...).(type) {
	case nil:
	case T:
		return found
	default:
		f.contradict("%s is %s, it must be %s", strings.Join(path, "."), typeOf(found), what)
	}
	return value
}

// exceeds takes note of a list that is longer than one may be, and reports whether it is.
func (f *fields) exceeds(length, most int, has string, path ...string) bool {
	if length > most {
		f.contradict("%s "+has+", at most %d are supported", strings.Join(path, "."), length, most)
	}
	return length > most
}

// integer returns a whole number of 32 bits; 0 when there is none.
func (f *fields) integer(path ...string) int32 {
	value := as[int64](f, "a whole number", path...)
	if value < math.MinInt32 || value > math.MaxInt32 {
		f.contradict("%s is %d, it must be a number of 32 bits", strings.Join(path, "."), value)
		return 0
	}
	return int32(value)
}

// integerOr returns a whole number of 32 bits; the default when there is none.
func (f *fields) integerOr(otherwise int32, path ...string) int32 {
	if f.value(path...) == nil {
		return otherwise
	}
	return f.integer(path...)
}

// keys returns the keys of an object, sorted; none when there is none.
func (f *fields) keys(path ...string) []string {
	value := as[map[string]any](f, "an object", path...)
	if f.exceeds(len(value), maxRoles, "has %d fields", path...) {
		return nil
	}
	return f.names(value, path...)
}

// names returns the keys of an object that a path leads to, sorted; none when one is longer than a name can be.
func (f *fields) names(object map[string]any, path ...string) []string {
	names := slices.Sorted(maps.Keys(object))
	for _, name := range names {
		if len(name) > validation.DNS1123SubdomainMaxLength {
			f.contradict("%s: %s is longer than a name can be", strings.Join(path, "."), model.Brief(name, maxQuoted))
			return nil
		}
	}
	return names
}

// list returns the objects of a list; none when there is none.
func (f *fields) list(path ...string) (items []*fields) {
	at, value := strings.Join(path, "."), as[[]any](f, "a list", path...)
	if f.exceeds(len(value), maxRoles, "has %d items", path...) {
		return nil
	}
	for i, item := range value {
		object, ok := item.(map[string]any)
		if !ok {
			f.contradict("%s[%d] is %s, it must be an object", at, i, typeOf(item))
			return nil
		}
		items = append(items, &fields{object: object, at: fmt.Sprintf("%s%s[%d].", f.at, at, i), whole: cmp.Or(f.whole, f)})
	}
	return items
}

// maxResources is how many resources a list may name, and maxResourceName how long a name may be, in bytes.
const (
	maxResources    = 64
	maxResourceName = 317
)

// isOfQuota reports whether a resource is one that quotas count and no pod requests: Volcano's Job controller writes them, too.
func isOfQuota(name string) bool {
	return name == "pods" || strings.HasPrefix(name, "count/") || strings.HasPrefix(name, "requests.") || strings.HasPrefix(name, "limits.")
}

// resources returns a list of amounts by name, without those of quotas; nil when there is none.
func (f *fields) resources(path ...string) []Amount {
	value := as[map[string]any](f, "a list of amounts by resource", path...)
	if value == nil || f.exceeds(len(value), maxResources, "names %d resources", path...) {
		return nil
	}
	list := make([]Amount, 0, len(value))
	for _, name := range slices.Sorted(maps.Keys(value)) {
		amount, ok := amountOf(fmt.Sprint(value[name]))
		if !ok || len(name) > maxResourceName {
			f.contradict("%s.%s is no amount of a resource", strings.Join(path, "."), model.Brief(name, maxQuoted))
			return nil
		}
		if !isOfQuota(name) {
			list = append(list, Amount{corev1.ResourceName(name), amount})
		}
	}
	return list
}

// amountOf reads an amount. One with a long exponent is none: to add 1 to 1e99999999, which the schemas of other projects take,
// makes a number with as many digits.
func amountOf(text string) (amount resource.Quantity, ok bool) {
	if exponent := strings.LastIndexAny(text, "eE"); len(text) > maxAmount || exponent >= 0 && len(text)-exponent > maxExponent {
		return amount, false
	}
	amount, err := resource.ParseQuantity(text)
	return amount, err == nil
}

// maxAmount is how long the text of an amount may be, maxExponent that of its exponent with the letter and a sign.
const (
	maxAmount   = 64
	maxExponent = len("e+18")
)

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

// condition reads the last condition of the status that is of one of the types.
func (f *fields) condition(types ...string) (shown Shown) {
	conditions, listed := f.value("status", "conditions").([]any)
	shown.HasConditions = listed
	for at, condition := range slices.Backward(conditions) {
		fields, ok := condition.(map[string]any)
		if kind, _ := fields["type"].(string); ok && slices.Contains(types, kind) {
			text := func(name string) string {
				value, _ := fields[name].(string)
				return model.Brief(value, MaxShown)
			}
			shown.Type, shown.Status, shown.Reason, shown.Message = kind, text("status"), text("reason"), text("message")
			shown.At = at
			break
		}
	}
	return shown
}

// MaxShown is how much of a text of a status is kept, and MaxMessage how long a message is that is written, in bytes: less.
const (
	MaxShown   = 2048
	MaxMessage = 1024
)

// minimum returns a number of members that start together; a number below 0 is a contradiction, and what is not stated is 1.
func (f *fields) minimum(path ...string) int32 {
	n := f.integer(path...)
	if n < 0 {
		f.contradict("%s is %d, it must be at least 0", strings.Join(path, "."), n)
	}
	return max(1, n)
}

// maxRoles is how many roles a group may have.
const maxRoles = 256

// minima returns the minima of roles by name, and their sum; roles that need no member are left out.
func (f *fields) minima(path ...string) (roles []model.Role, sum int64) {
	value := as[map[string]any](f, "a list of minima by role", path...)
	if f.exceeds(len(value), maxRoles, "names %d roles", path...) {
		return nil, 0
	}
	for _, name := range f.names(value, path...) {
		n := f.integer(append(slices.Clone(path), name)...)
		if n < 0 {
			f.contradict("%s.%s is %d, it must be at least 0", strings.Join(path, "."), model.Brief(name, maxQuoted), n)
		}
		if n > 0 {
			roles, sum = append(roles, model.Role{Name: name, MinMember: n}), sum+int64(n)
		}
	}
	return roles, sum
}

// text returns a text of at most the length of a name; empty when there is none.
func (f *fields) text(path ...string) string {
	return model.Brief(as[string](f, "a text", path...), validation.DNS1123SubdomainMaxLength)
}
