package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Remark is what a translation loses, or what its reader must decide.
type Remark struct {
	// Document is its number in the file, from 1.
	Document int
	// Object is kind and name of the object, empty where there is none.
	Object string
	// Field is where in the object, and Text what about it.
	Field, Text string
}

// String is one line.
func (r Remark) String() string {
	text := fmt.Sprintf("document %d: ", r.Document)
	for _, part := range []string{r.Object, r.Field} {
		if part != "" {
			text += part + ": "
		}
	}
	return text + r.Text
}

// File translates a file of kube-batch's, in YAML or JSON, of one or several documents. A document without anything of
// kube-batch's is returned as it is. The error has all that cannot be translated.
func File(text []byte) (translated []byte, remarks []Remark, err error) {
	var out bytes.Buffer
	var wrong []error
	line := 0
	for i, document := range documents(string(text)) {
		t := translation{document: i + 1}
		said, err := t.translate(document, line)
		line += strings.Count(document, "\n")
		if err != nil {
			wrong = append(wrong, err)
		}
		out.WriteString(said)
		remarks = append(remarks, t.remarks...)
	}
	return out.Bytes(), remarks, errors.Join(wrong...)
}

// documents splits a file at the lines that begin a document, which stay with what follows them. What stands before the first one
// without any content is no document of its own.
func documents(text string) (all []string) {
	var document strings.Builder
	content := false
	for line := range strings.Lines(text) {
		if separates(line) && content {
			all = append(all, document.String())
			document.Reset()
			content = false
		}
		document.WriteString(line)
		bare := strings.TrimSpace(line)
		content = content || bare != "" && !strings.HasPrefix(bare, "#") && !separates(line) && !strings.HasPrefix(bare, "%")
	}
	if document.Len() > 0 {
		all = append(all, document.String())
	}
	return all
}

func separates(line string) bool {
	rest, begins := strings.CutPrefix(line, "---")
	rest = strings.TrimSpace(rest)
	return begins && (rest == "" || strings.HasPrefix(rest, "#"))
}

// translation is that of one document.
type translation struct {
	document int
	// object is the innermost one that is looked at.
	object  string
	remarks []Remark
	wrong   []error
	changed bool
}

func (t *translation) remark(field, format string, args ...any) {
	t.remarks = append(t.remarks, Remark{t.document, t.object, field, fmt.Sprintf(format, args...)})
}

func (t *translation) refuse(field, format string, args ...any) {
	t.wrong = append(t.wrong, errors.New(Remark{t.document, t.object, field, fmt.Sprintf(format, args...)}.String()))
}

// translate returns the document as it came unless something of it is kube-batch's. before is the number of lines above it.
func (t *translation) translate(text string, before int) (string, error) {
	above := 0 // what is above its content is kept as it is
	at := 0
	for line := range strings.Lines(text) {
		if at += len(line); separates(line) {
			above = at
		}
	}
	var root, more yaml.Node
	// The blank lines make those of errors the file's own.
	decoder := yaml.NewDecoder(io.MultiReader(strings.NewReader(strings.Repeat("\n", before+strings.Count(text[:above], "\n"))), strings.NewReader(text[above:])))
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF): // comments
		return text, nil
	case err != nil:
		return "", errors.New(Remark{Document: t.document, Text: err.Error()}.String())
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return "", errors.New(Remark{Document: t.document, Text: "another one follows without a line --- between"}.String())
	}
	t.walk(root.Content[0], "")
	if err := errors.Join(t.wrong...); err != nil || !t.changed {
		return text, err
	}
	out := bytes.NewBufferString(text[:above])
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := errors.Join(encoder.Encode(&root), encoder.Close()); err != nil {
		return "", errors.New(Remark{Document: t.document, Text: err.Error()}.String())
	}
	return out.String(), nil
}
