package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// line is one object in short: a kind, a name and words.
type line struct {
	kind, namespace, name string
	words                 []word
}

// word is key=value, or a key alone.
type word struct{ key, value string }

// parseLines reads lines of objects; ranges are spelt out, blank lines and comments left out.
func parseLines(text string) ([]line, error) {
	var all []line
	for _, row := range strings.Split(text, "\n") {
		fields := strings.Fields(row)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("%q: a line is a kind, a name and words", row)
		}
		names, err := expand(fields[1])
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			one := line{kind: strings.TrimSuffix(fields[0], "s"), words: parseWords(fields[2:])}
			switch fields[0] {
			case "class", "kubernetes", "deviceclass", "devices":
				one.kind = fields[0]
			}
			one.namespace, one.name = splitName(name)
			all = append(all, one)
		}
	}
	return all, nil
}

func parseWords(fields []string) []word {
	var words []word
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		words = append(words, word{key, value})
	}
	return words
}

func splitName(name string) (namespace, bare string) {
	if namespace, bare, found := strings.Cut(name, "/"); found {
		return namespace, bare
	}
	return "default", name
}

var rangeOf = regexp.MustCompile(`^(.*)\{(\d+)\.\.(\d+)\}(.*)$`)

// expand spells out a range: a-{0..2} is a-0, a-1, a-2.
func expand(name string) ([]string, error) {
	parts := rangeOf.FindStringSubmatch(name)
	if parts == nil {
		return []string{name}, nil
	}
	from, err := strconv.Atoi(parts[2])
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	to, err := strconv.Atoi(parts[3])
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	var names []string
	for i := from; i <= to; i++ {
		names = append(names, parts[1]+strconv.Itoa(i)+parts[4])
	}
	return names, nil
}
