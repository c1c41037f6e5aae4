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

// value is what stands behind a name: the text of a scalar, as written but for quotes, or what a list or mapping holds.
type value struct {
	text string
	line int
	// what is "a list" or "a mapping", as messages say; empty for a scalar.
	what   string
	items  []value
	fields map[string]value
}

// shown is how a message shows the value.
func (v value) shown() string { return cmp.Or(v.what, quote(v.text)) }

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

// arguments decodes a mapping of names to values; node is nil when there is none. Whether a value may be a list or a
// mapping is for the owner's reader to say.
func (d *decoder) arguments(node *yaml.Node, owner string, at Position) Arguments {
	all := noArguments(owner, at)
	if node == nil || isNull(node) {
		return all
	}
	if node.Kind != yaml.MappingNode {
		d.errorf(node, "%s: arguments must be a mapping of names to values, not %s", owner, describe(node))
		return all
	}
	all.values = d.values(node, owner, "")
	return all
}

// values decodes a mapping; path is what leads to it, empty for the arguments themselves.
func (d *decoder) values(node *yaml.Node, owner, path string) map[string]value {
	values, what := map[string]value{}, "the arguments of "+owner
	if path != "" {
		what = path + " of " + owner
		path += "."
	}
	d.pairs(node, what, func(key, v *yaml.Node) {
		if read, ok := d.value(v, owner, path+key.Value); ok {
			values[key.Value] = read
		}
	})
	return values
}

// value decodes what stands at a path, or records that nothing does.
func (d *decoder) value(node *yaml.Node, owner, path string) (value, bool) {
	v := value{line: node.Line, what: describe(node)}
	switch {
	case node.Kind == yaml.MappingNode:
		v.fields = d.values(node, owner, path)
	case node.Kind == yaml.SequenceNode:
		for i, item := range node.Content {
			if read, ok := d.value(item, owner, fmt.Sprintf("%s[%d]", path, i)); ok {
				v.items = append(v.items, read)
			}
		}
	case node.Kind == yaml.ScalarNode && !isNull(node):
		v.what, v.text = "", node.Value
	default:
		d.errorf(node, "%s: argument %s is %s", owner, quote(path), describe(node))
		return v, false
	}
	return v, true
}

// Len returns how many arguments there are.
func (a Arguments) Len() int { return len(a.values) }

// Names returns the names of the arguments, sorted.
func (a Arguments) Names() []string { return slices.Sorted(maps.Keys(a.values)) }

// Raw returns the text of an argument as written, without quotes, and false when it is not given; the text of a list or a
// mapping is empty.
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
	// path leads to a nested mapping, such as "extenders[0]"; empty for the arguments themselves.
	path     string
	asked    []string
	nested   []*Reader
	errs     []*Error
	warnings []Warning
}

// Int reads a whole number between least and most, both allowed. A number in quotes is a number too.
func (r *Reader) Int(name string, def, least, most int64) int64 {
	v, ok := r.scalar(name)
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
	v, ok := r.scalar(name)
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
	v, ok := r.scalar(name)
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
	v, ok := r.scalar(name)
	if !ok {
		return def
	}
	return v.text
}

// OneOf reads one of the choices.
func (r *Reader) OneOf(name, def string, choices ...string) string {
	v, ok := r.scalar(name)
	if !ok {
		return def
	}
	if !slices.Contains(choices, v.text) {
		r.refuse(name, v, "must be one of "+list(choices), DidYouMean(v.text, choices))
		return def
	}
	return v.text
}

// Texts reads a list of texts; nil when it is not given.
func (r *Reader) Texts(name string) []string {
	var texts []string
	for i, item := range r.items(name) {
		if item.what != "" {
			r.refuse(fmt.Sprintf("%s[%d]", name, i), item, "must be a single value")
			continue
		}
		texts = append(texts, item.text)
	}
	return texts
}

// Items reads a list of mappings, and returns a reader of each; nil when it is not given. What is wrong in them is said by
// the Finish of the outermost reader.
func (r *Reader) Items(name string) []*Reader {
	var readers []*Reader
	for i, item := range r.items(name) {
		path := fmt.Sprintf("%s[%d]", name, i)
		if item.fields == nil {
			r.refuse(path, item, "must be a mapping of names to values")
			continue
		}
		readers = append(readers, r.nest(path, item))
	}
	return readers
}

// Section reads a mapping, and returns a reader of it that has nothing to read when it is not given; given says whether it
// is. What is wrong in it is said as for Items.
func (r *Reader) Section(name string) (section *Reader, given bool) {
	v, ok := r.ask(name)
	if ok && v.fields == nil {
		r.refuse(name, v, "must be a mapping of names to values")
		ok = false
	}
	if !ok {
		return r.nest(name, value{}), false
	}
	return r.nest(name, v), true
}

// Refuse records that the value of an argument is no good for a reason of the owner's, in words that follow "must",
// such as "be smaller than b". It does nothing when the argument is not given.
func (r *Reader) Refuse(name, must string) {
	if v, ok := r.ask(name); ok {
		r.refuse(name, v, "must "+must)
	}
}

// RefuseSecret records as Refuse does that the value of an argument is no good, and does not show it: messages are kept in
// events and logs.
func (r *Reader) RefuseSecret(name, must string) {
	if v, ok := r.ask(name); ok {
		text := fmt.Sprintf("%s: argument %s must %s", r.arguments.owner, r.full(name), must)
		r.errs = append(r.errs, &Error{Position: r.arguments.position(v), Text: text})
	}
}

// Asked returns the names that were asked for, given or not, in the order in which they were first.
func (r *Reader) Asked() []string { return slices.Clone(r.asked) }

// Warn records that an argument has no effect, for a reason in words that follow a colon. It does nothing when the argument is
// not given.
func (r *Reader) Warn(name, why string) {
	if v, ok := r.ask(name); ok {
		text := fmt.Sprintf("%s: argument %s has no effect: %s", r.arguments.owner, r.full(name), why)
		r.warnings = append(r.warnings, Warning{Position: r.arguments.position(v), Text: text})
	}
}

// Warnings returns what is good and should be written differently, in the order in which it was read.
func (r *Reader) Warnings() []Warning {
	all := slices.Clone(r.warnings)
	for _, nested := range r.nested {
		all = append(all, nested.Warnings()...)
	}
	return all
}

// Require records that an argument must be given when it is not.
func (r *Reader) Require(name string) {
	if _, ok := r.ask(name); !ok {
		text := fmt.Sprintf("%s: argument %s is missing", r.arguments.owner, r.full(name))
		r.errs = append(r.errs, &Error{Position: r.arguments.at, Text: text})
	}
}

// Finish returns nil if every argument given was read and good, else the errors joined, each with its line; see Errors.
func (r *Reader) Finish() error { return join(r.problems()) }

func (r *Reader) problems() []*Error {
	errs := slices.Clone(r.errs)
	for _, name := range r.arguments.Names() {
		if slices.Contains(r.asked, name) {
			continue
		}
		v := r.arguments.values[name]
		text := fmt.Sprintf("%s: unknown argument %s", r.arguments.owner, quote(name))
		if r.path != "" {
			text += " in " + r.path
		}
		switch hint := DidYouMean(name, r.asked); {
		case hint != "":
			text += hint
		case len(r.asked) == 0:
			text += "; it takes none"
		default:
			text += "; it takes " + list(slices.Sorted(slices.Values(r.asked)))
		}
		errs = append(errs, &Error{Position: r.arguments.position(v), Text: text})
	}
	for _, nested := range r.nested {
		errs = append(errs, nested.problems()...)
	}
	return errs
}

// nest returns a reader of what a mapping holds.
func (r *Reader) nest(name string, v value) *Reader {
	nested := &Reader{path: r.full(name), arguments: Arguments{
		owner: r.arguments.owner, values: v.fields, at: r.arguments.position(v),
	}}
	r.nested = append(r.nested, nested)
	return nested
}

// items returns what a list holds, or nil after having recorded that it is none.
func (r *Reader) items(name string) []value {
	v, ok := r.ask(name)
	if ok && (v.what == "" || v.fields != nil) {
		r.refuse(name, v, "must be a list")
		return nil
	}
	return v.items
}

// scalar looks a single value up; ok is false also after having recorded that it is none.
func (r *Reader) scalar(name string) (v value, ok bool) {
	if v, ok = r.ask(name); ok && v.what != "" {
		r.refuse(name, v, "must be a single value")
		return v, false
	}
	return v, ok
}

// ask looks an argument up and remembers that it is known.
func (r *Reader) ask(name string) (value, bool) {
	if !slices.Contains(r.asked, name) {
		r.asked = append(r.asked, name)
	}
	v, ok := r.arguments.values[name]
	return v, ok
}

// full returns the name of an argument with the path that leads to it.
func (r *Reader) full(name string) string {
	if r.path == "" {
		return name
	}
	return r.path + "." + name
}

// refuse records what the value of an argument must be, and is not; hints are put behind.
func (r *Reader) refuse(name string, v value, must string, hints ...string) {
	text := fmt.Sprintf("%s: argument %s %s, not %s", r.arguments.owner, r.full(name), must, v.shown())
	text += strings.Join(hints, "")
	r.errs = append(r.errs, &Error{Position: r.arguments.position(v), Text: text})
}

func (a Arguments) position(v value) Position {
	return Position{File: a.at.File, Line: cmp.Or(v.line, a.at.Line)}
}
