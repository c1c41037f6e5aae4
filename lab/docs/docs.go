// Package docs finds the commands in the project's pages, and says whether what one printed is what the page shows. It runs
// nothing: the end-to-end tests do.
//
// A block fenced as console holds lines that begin with "$ ", each a command, and below it what it prints, as far as the page
// shows it. A command goes on where its line ends with a backslash, or with a here-document. A block of sh or bash is one
// command as it stands.
//
// A block that cannot run on a machine with a throw-away cluster alone says why in a comment right above it:
//
//	<!-- not run: it pushes to a registry -->
package docs

import (
	"fmt"
	"regexp"
	"strings"
)

// Block is a fenced block of commands.
type Block struct {
	// File and Line are where its first line is, the fence.
	File string
	Line int
	// NotRun is why it is not run; empty means that it is.
	NotRun string
	// Commands are what is in it, in order.
	Commands []Command
}

// Command is one command of a block.
type Command struct {
	// Line is where it begins.
	Line int
	// Text is what a shell is given.
	Text string
	// Want are the lines that the page shows below it, as Shows reads them; nil when it shows none.
	Want []string
}

// Parse returns the blocks of commands in a page. It fails where a block has no command, no end, or a comment without a reason.
func Parse(file, text string) ([]Block, error) {
	fence := regexp.MustCompile("^([ \t]*)```(console|sh|bash|shell)$")
	comment := regexp.MustCompile(`^\s*<!--\s*not run\b:?\s*(.*?)\s*-->$`)
	var (
		blocks []Block
		lines  = strings.Split(text, "\n")
		before string // the last line that is not empty
	)
	for i := 0; i < len(lines); i++ {
		opened := fence.FindStringSubmatch(lines[i])
		if opened == nil {
			if strings.HasPrefix(strings.TrimSpace(lines[i]), "```") { // a block of another kind
				if i = end(lines, i+1); i == len(lines) {
					return nil, fmt.Errorf("%s: a fence is not closed", file)
				}
			}
			if strings.TrimSpace(lines[i]) != "" {
				before = lines[i]
			}
			continue
		}
		block := Block{File: file, Line: i + 1}
		if marked := comment.FindStringSubmatch(before); marked != nil {
			if block.NotRun = marked[1]; block.NotRun == "" {
				return nil, fmt.Errorf("%s:%d: the comment does not say why the block is not run", file, i+1)
			}
		}
		closed := end(lines, i+1)
		if closed == len(lines) {
			return nil, fmt.Errorf("%s:%d: the fence is not closed", file, i+1)
		}
		body := make([]string, 0, closed-i)
		for _, line := range lines[i+1 : closed] {
			body = append(body, strings.TrimPrefix(line, opened[1]))
		}
		if opened[2] == "console" {
			block.Commands = commands(body, i+2)
		} else {
			block.Commands = []Command{{Line: i + 2, Text: strings.Join(body, "\n")}}
		}
		if len(block.Commands) == 0 {
			return nil, fmt.Errorf("%s:%d: no line of the block begins with \"$ \"", file, i+1)
		}
		blocks = append(blocks, block)
		i, before = closed, ""
	}
	return blocks, nil
}

// end is the line that closes a fence, or the number of lines.
func end(lines []string, from int) int {
	for i := from; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) == "```" {
			return i
		}
	}
	return len(lines)
}

// commands reads the lines of a console.
func commands(lines []string, number int) []Command {
	var all []Command
	for i := 0; i < len(lines); i++ {
		text, is := strings.CutPrefix(lines[i], "$ ")
		if !is {
			if len(all) > 0 && strings.TrimSpace(lines[i]) != "" {
				last := &all[len(all)-1]
				last.Want = append(last.Want, lines[i])
			}
			continue
		}
		command := Command{Line: number + i}
		for strings.HasSuffix(text, "\\") && i+1 < len(lines) {
			i++
			text += "\n" + lines[i]
		}
		if word := hereDocument(text); word != "" {
			for i+1 < len(lines) {
				i++
				text += "\n" + lines[i]
				if lines[i] == word {
					break
				}
			}
		}
		command.Text = text
		all = append(all, command)
	}
	return all
}

// hereDocument is the word that ends the here-document of a command, empty when it has none.
func hereDocument(text string) string {
	found := regexp.MustCompile(`<<-?\s*['"]?(\w+)['"]?`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return found[1]
}

// Shows is nil when the lines of a page are found in what a command printed, in this order; other lines may be between them.
// Space between words does not count. "…" stands for anything, and one age or time for another, such as 8s for 2m10s.
func Shows(want []string, printed string) error {
	rest := strings.Split(printed, "\n")
	for _, line := range want {
		pattern, err := regexp.Compile(pattern(line))
		if err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
		found := -1
		for i, got := range rest {
			if pattern.MatchString(got) {
				found = i
				break
			}
		}
		if found < 0 {
			return fmt.Errorf("no line like %q in what was printed:\n%s", line, printed)
		}
		rest = rest[found+1:]
	}
	return nil
}

// pattern is the regular expression for a line of a page.
func pattern(line string) string {
	age := regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)([0-9]+[smh])?$`)
	var words []string
	for _, word := range strings.Fields(line) {
		if age.MatchString(word) {
			words = append(words, `[0-9]\S*`)
			continue
		}
		words = append(words, strings.ReplaceAll(regexp.QuoteMeta(word), "…", ".*"))
	}
	return `^\s*` + strings.Join(words, `\s+`) + `\s*$`
}
