package v1alpha1

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Arguments are what a file says to one action or plugin, unread: names with the text and line of their values. They
// never change; the zero value has none.
type Arguments struct {
	owner  string // "plugin nodeorder", as messages begin
	at     Position
	values map[string]value
}

// value is the text of a scalar, as written but for quotes, and its line.
type value struct {
	text string
	line int
}

// NewArguments returns arguments that come from no file, for tests and for owners that are made without one. The owner
// begins the messages: "plugin nodeorder".
func NewArguments(owner string, values map[string]string) Arguments {
	a := noArguments(owner, Position{})
	for name, text := range values {
		a.values[name] = value{text: text}
	}
	return a
}

func noArguments(owner string, at Position) Arguments {
	return Arguments{owner: owner, at: at, values: map[string]value{}}
}

// arguments decodes a mapping of names to scalars; node is nil when there is none.
func (d *decoder) arguments(node *yaml.Node, owner string, at Position) Arguments {
	all := noArguments(owner, at)
	if node == nil || isNull(node) {
		return all
	}
	if node.Kind != yaml.MappingNode {
		d.errorf(node, "%s: arguments must be a mapping of names to values, not %s", owner, describe(node))
		return all
	}
	d.pairs(node, "the arguments of "+owner, func(key, v *yaml.Node) {
		if v.Kind != yaml.ScalarNode || isNull(v) {
			d.errorf(v, "%s: argument %s must be a single value, not %s", owner, quote(key.Value), describe(v))
			return
		}
		all.values[key.Value] = value{text: v.Value, line: v.Line}
	})
	return all
}

// Len returns how many arguments there are.
func (a Arguments) Len() int { return len(a.values) }

// Names returns the names of the arguments, sorted.
func (a Arguments) Names() []string { return slices.Sorted(maps.Keys(a.values)) }

// Raw returns the text of an argument as written, without quotes, and false when it is not given.
func (a Arguments) Raw(name string) (string, bool) {
	v, ok := a.values[name]
	return v.text, ok
}

// Reader returns a reader of the arguments. Read each that the owner knows, then call Finish.
func (a Arguments) Reader() *Reader {
	return &Reader{arguments: a}
}

// Reader reads arguments by type. A method returns the default when the argument is not given, and also when its value
// is no good; that is then said by Finish. A Reader serves one goroutine.
//
//	r := arguments.Reader()
//	p.least = r.Int("leastrequested.weight", 1, 0, 1000)
//	p.strict = r.Bool("strict", false)
//	return r.Finish()
type Reader struct {
	arguments Arguments
	asked     []string
	errs      []*Error
}

// Int reads a whole number between least and most, both allowed. A number in quotes is a number too.
func (r *Reader) Int(name string, def, least, most int64) int64 {
	v, ok := r.ask(name)
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	switch {
	case err != nil:
		r.refuse(name, v, fmt.Sprintf("must be a whole number between %d and %d", least, most))
		return def
	case n < least || n > most:
		r.refuse(name, v, fmt.Sprintf("must be between %d and %d", least, most))
		return def
	}
	return n
}

// Bool reads true or false, in any spelling that kube-batch takes (also "True", "1", "f").
func (r *Reader) Bool(name string, def bool) bool {
	v, ok := r.ask(name)
	if !ok {
		return def
	}
	b, err := strconv.ParseBool(v.text)
	if err != nil {
		r.refuse(name, v, "must be true or false")
		return def
	}
	return b
}

// Duration reads a time span such as 90s, 10m or 1h30m, or 0, that is not shorter than least.
func (r *Reader) Duration(name string, def, least time.Duration) time.Duration {
	v, ok := r.ask(name)
	if !ok {
		return def
	}
	span, err := time.ParseDuration(v.text)
	switch {
	case err != nil:
		r.refuse(name, v, "must be a time span with its unit, such as 90s or 10m")
		return def
	case span < least:
		r.refuse(name, v, fmt.Sprintf("must not be shorter than %s", least))
		return def
	}
	return span
}

// String reads any text.
func (r *Reader) String(name, def string) string {
	v, ok := r.ask(name)
	if !ok {
		return def
	}
	return v.text
}

// OneOf reads one of the choices.
func (r *Reader) OneOf(name, def string, choices ...string) string {
	v, ok := r.ask(name)
	if !ok {
		return def
	}
	if !slices.Contains(choices, v.text) {
		r.refuse(name, v, "must be one of "+list(choices), didYouMean(v.text, choices))
		return def
	}
	return v.text
}

// Refuse records that the value of an argument is no good for a reason of the owner's, in words that follow "must",
// such as "be smaller than b". It does nothing when the argument is not given.
func (r *Reader) Refuse(name, must string) {
	if v, ok := r.ask(name); ok {
		r.refuse(name, v, "must "+must)
	}
}

// Finish returns nil if every argument given was read and good, else the errors joined, each with its line; see Errors.
func (r *Reader) Finish() error {
	errs := slices.Clone(r.errs)
	for _, name := range r.arguments.Names() {
		if slices.Contains(r.asked, name) {
			continue
		}
		v := r.arguments.values[name]
		text := fmt.Sprintf("%s: unknown argument %s", r.arguments.owner, quote(name))
		switch hint := didYouMean(name, r.asked); {
		case hint != "":
			text += hint
		case len(r.asked) == 0:
			text += "; it takes none"
		default:
			text += "; it takes " + list(slices.Sorted(slices.Values(r.asked)))
		}
		errs = append(errs, &Error{Position: r.arguments.position(v), Text: text})
	}
	return join(errs)
}

// ask looks an argument up and remembers that it is known.
func (r *Reader) ask(name string) (value, bool) {
	if !slices.Contains(r.asked, name) {
		r.asked = append(r.asked, name)
	}
	v, ok := r.arguments.values[name]
	return v, ok
}

// refuse records what the value of an argument must be, and is not; hints are put behind.
func (r *Reader) refuse(name string, v value, must string, hints ...string) {
	text := fmt.Sprintf("%s: argument %s %s, not %s", r.arguments.owner, name, must, quote(v.text))
	text += strings.Join(hints, "")
	r.errs = append(r.errs, &Error{Position: r.arguments.position(v), Text: text})
}

func (a Arguments) position(v value) Position {
	return Position{File: a.at.File, Line: cmp.Or(v.line, a.at.Line)}
}
