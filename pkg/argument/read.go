package argument

import (
	"slices"
	"strconv"
	"time"
)

// Reader reads values by name and type. Each method returns def when the argument is not given, and also when its value is
// invalid, which the reader then reports. config.Reader is one.
type Reader interface {
	Int(name string, def, least, most int64) int64
	Bool(name string, def bool) bool
	Duration(name string, def, least time.Duration) time.Duration
	String(name, def string) string
	OneOf(name, def string, choices ...string) string
	// Texts reads a list of texts; nil when it is not given.
	Texts(name string) []string
	// Require reports an argument that is not given.
	Require(name string)
	// Refuse reports an invalid value, as text after "must", if the argument is given.
	Refuse(name, must string)
	// Warn reports that an argument has no effect, as text after a colon, if the argument is given.
	Warn(name, why string)
}

// Values are the values read, by name. A name that was not declared, or not with that type, has the zero value: a mistake in
// the code, which the first test that reads the argument finds.
type Values map[string]value

type value struct {
	number int64
	truth  bool
	span   time.Duration
	text   string
	texts  []string
}

// Int returns a whole number.
func (v Values) Int(name string) int64 { return v[name].number }

// Bool returns a boolean.
func (v Values) Bool(name string) bool { return v[name].truth }

// Duration returns a duration; zero when a word is in its place, see Text.
func (v Values) Duration(name string) time.Duration { return v[name].span }

// Text returns a text, the word of a choice, or the word in place of a duration.
func (v Values) Text(name string) string { return v[name].text }

// Texts returns a list of texts; nil when it was not given.
func (v Values) Texts(name string) []string { return v[name].texts }

// Read reads every argument of the list but mappings, which their owner reads from the reader.
func (l List) Read(r Reader) Values {
	values := Values{}
	for _, a := range l {
		if a.Required {
			r.Require(a.Name)
		}
		if a.IgnoredReason != "" {
			r.Warn(a.Name, a.IgnoredReason)
		}
		if len(a.Fields) == 0 {
			values[a.Name] = a.read(r)
		}
	}
	return values
}

// read reads one value. Tests of this package check that every default parses, so that parsing one cannot fail.
func (a Argument) read(r Reader) value {
	switch a.Type {
	case IntType:
		def, _ := strconv.ParseInt(a.Default, 10, 64)
		return value{number: r.Int(a.Name, def, a.min, a.max)}
	case BoolType:
		return value{truth: r.Bool(a.Name, a.Default == "true")}
	case DurationType:
		if len(a.words) > 0 {
			if word := r.String(a.Name, a.Default); slices.Contains(a.words, word) {
				return value{text: word}
			}
		}
		def, _ := time.ParseDuration(a.Default)
		return value{span: r.Duration(a.Name, def, a.span)}
	case EnumType:
		return value{text: r.OneOf(a.Name, a.Default, a.words...)}
	case StringListType:
		return value{texts: r.Texts(a.Name)}
	default:
		return value{text: r.String(a.Name, a.Default)}
	}
}
