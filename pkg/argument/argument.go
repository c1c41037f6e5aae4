// Package argument declares the configuration arguments of actions and plugins. Each argument is declared once: its name, its
// type, its range, its default, its unit, and what it does. The same declaration reads the value and explains it, so that the
// program and its documentation agree.
//
// It knows no argument itself, and does not decode files: values come from a Reader, which also reports invalid ones. What a
// type cannot check (that two values must go together, or the format of a text), its owner checks and refuses.
package argument

import (
	"strconv"
	"strings"
	"time"
)

// Type is the type of an argument's value, as the documentation names it.
type Type string

// The types.
const (
	IntType        Type = "whole number"
	BoolType       Type = "true or false"
	DurationType   Type = "time span"
	StringType     Type = "text"
	EnumType       Type = "one of"
	StringListType Type = "list of texts"
	MapListType    Type = "list of mappings"
	MapType        Type = "mapping"
)

// Argument is one argument. Make one with the function for its type, then call WithHelp, InUnit, OrWord, WithFormat,
// MarkRequired and Ignored on it.
type Argument struct {
	// Name is its name in a file.
	Name string
	Type Type
	// Default is the value when it is not given, as in a file; empty for none.
	Default string
	// Unit is the unit of a number; empty when the name or the type says it.
	Unit string
	// Form is the required format of a text, in a few words; empty when any text is valid.
	Form string
	// Help is what it does, in half a sentence of Markdown without a full stop.
	Help string
	// Required reports whether it must be given.
	Required bool
	// IgnoredReason is why it has no effect, as text after a colon; empty when it has one. Giving it causes a warning.
	IgnoredReason string
	// Fields are the fields of a mapping, or of each in a list of mappings.
	Fields List

	min, max int64
	span     time.Duration
	words    []string
}

// Int declares a whole number between least and most, both allowed.
func Int(name string, def, least, most int64) Argument {
	return Argument{Name: name, Type: IntType, Default: strconv.FormatInt(def, 10), min: least, max: most}
}

// Bool declares a boolean.
func Bool(name string, def bool) Argument {
	return Argument{Name: name, Type: BoolType, Default: strconv.FormatBool(def)}
}

// Duration declares a duration of at least least.
func Duration(name string, def, least time.Duration) Argument {
	return Argument{Name: name, Type: DurationType, Default: spanText(def), span: least}
}

// Text declares a text; its owner defines the format, see WithFormat.
func Text(name, def string) Argument { return Argument{Name: name, Type: StringType, Default: def} }

// OneOf declares a choice of words.
func OneOf(name, def string, words ...string) Argument {
	return Argument{Name: name, Type: EnumType, Default: def, words: words}
}

// Texts declares a list of texts, which is empty unless given.
func Texts(name string) Argument { return Argument{Name: name, Type: StringListType} }

// Mappings declares a list of mappings, and Mapping one; the owner reads their Fields.
func Mappings(name string, fields ...Argument) Argument {
	return Argument{Name: name, Type: MapListType, Fields: fields}
}

// Mapping declares a mapping; see Mappings.
func Mapping(name string, fields ...Argument) Argument {
	return Argument{Name: name, Type: MapType, Fields: fields}
}

// WithHelp sets what the argument does.
func (a Argument) WithHelp(help string) Argument { a.Help = help; return a }

// InUnit sets the unit of a number.
func (a Argument) InUnit(unit string) Argument { a.Unit = unit; return a }

// OrWord sets words that may replace a duration.
func (a Argument) OrWord(words ...string) Argument { a.words = words; return a }

// WithFormat sets the format of a text.
func (a Argument) WithFormat(form string) Argument { a.Form = form; return a }

// MarkRequired marks the argument as required.
func (a Argument) MarkRequired() Argument { a.Required = true; return a }

// Ignored marks the argument as known but without effect, and says why: files of other schedulers contain it.
func (a Argument) Ignored(why string) Argument { a.IgnoredReason = why; return a }

// Range returns the type with its unit and bounds: "whole number of gangs, 0 to 100", "own or all", "time span, at least
// 1ms".
func (a Argument) Range() string {
	switch {
	case a.Type == EnumType:
		return either(a.words)
	case a.Type == IntType:
		text := string(a.Type)
		if a.Unit != "" {
			text += " of " + a.Unit
		}
		return text + ", " + strconv.FormatInt(a.min, 10) + " to " + strconv.FormatInt(a.max, 10)
	case a.Type == DurationType:
		text := string(a.Type) + " such as 90s or 10m"
		if a.span > 0 {
			text += ", at least " + spanText(a.span)
		}
		if len(a.words) > 0 {
			text += ", or " + either(a.words)
		}
		return text
	case a.Form != "":
		return string(a.Type) + ": " + a.Form
	default:
		return string(a.Type)
	}
}

// spanText writes a duration in short form: 10m, not 10m0s.
func spanText(span time.Duration) string {
	text := span.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// List is all arguments of an owner, in the order in which they are explained.
type List []Argument
