package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// Format writes a vector for messages, devices first: "8 nvidia.com/gpu, 4 cpu and 2Gi memory". Zeros are left out.
func (d *ResourceIndex) Format(vector Resources) string {
	var devices, words []string
	list := d.List(vector)
	for name, amount := range list {
		if !NativeResource(name) {
			devices = append(devices, string(name)+" "+amount.String())
		}
	}
	slices.Sort(devices)
	for _, device := range devices {
		name, amount, _ := strings.Cut(device, " ")
		words = append(words, amount+" "+name)
	}
	for position := CPU; position <= Pods; position++ {
		name := d.Name(position)
		if amount, ok := list[name]; ok {
			words = append(words, amount.String()+" "+string(name))
		}
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// FormatAmount writes an amount of one resource, zero included: "8 nvidia.com/gpu".
func (d *ResourceIndex) FormatAmount(position int, amount int64) string {
	if position == Unoffered && amount != 0 { // several names
		return d.Format(Resources{Unoffered: amount})
	}
	quantity := d.quantity(position, amount)
	return quantity.String() + " " + string(d.Name(position))
}

// NativeResource reports whether every node has the resource: cpu, memory, ephemeral-storage and pods.
func NativeResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return true
	}
	return false
}

// NameList lists objects of one kind for users of a namespace, up to a few: names of their own namespace, and the number of
// others, since those names are not disclosed to them. The zero NameList is empty and ready.
type NameList struct {
	// Noun is the kind in the singular: "pod". Reader is the reader's namespace.
	Noun, Reader string

	own     []string
	foreign int
}

// Add adds an object, which is written as the text if it is of the reader's namespace.
func (n *NameList) Add(namespace, text string) {
	if namespace == n.Reader {
		n.own = append(n.own, text)
	} else {
		n.foreign++
	}
}

// String returns "ns/a, ns/b, ns/c, 4 more and 1 pod of another namespace", and an empty text when nothing was added.
func (n *NameList) String() string {
	const few = 3
	words := n.own
	if more := len(n.own) - few; more > 0 {
		words = append(slices.Clone(n.own[:few]), fmt.Sprintf("%d more", more))
	}
	named := strings.Join(words, ", ")
	if more := len(words); more > 1 && len(n.own) > few && n.foreign == 0 {
		named = strings.Join(words[:more-1], ", ") + " and " + words[more-1]
	}
	var others string
	switch n.foreign {
	case 0:
		return named
	case 1:
		others = "1 " + n.Noun + " of another namespace"
	default:
		others = fmt.Sprintf("%d %ss of other namespaces", n.foreign, n.Noun)
	}
	if named == "" {
		return others
	}
	return named + " and " + others
}

// OneLine returns what something panicked with in one line of at most 256 bytes, for a reason that users read.
func OneLine(value any) string {
	text := strings.Join(strings.Fields(fmt.Sprint(value)), " ")
	return strings.ToValidUTF8(text[:min(len(text), 256)], "")
}

// MaxMessage is how long a message may be that users read, in bytes.
const MaxMessage = 2048

// Brief cuts a text to so many bytes, which are at least the 3 of the mark that it was cut.
func Brief(text string, most int) string {
	const mark = "…"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(mark)], "") + mark
}

// Clean makes a text with parts that users wrote fit to be shown: characters that a terminal would obey are escaped as in Go, and
// it is cut to so many bytes.
func Clean(text string, most int) string {
	obeyed := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	if text = Brief(text, most); strings.IndexFunc(text, obeyed) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if obeyed(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return Brief(b.String(), most)
}
