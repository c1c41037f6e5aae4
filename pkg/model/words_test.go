package model

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestWordsOfAmounts(t *testing.T) {
	d := NewDimensions()
	gpu, tpu := d.Index("nvidia.com/gpu"), d.Index("acme.com/tpu")
	var vector Resources
	if got := d.Format(vector); got != "" {
		t.Errorf("nothing is %q", got)
	}
	vector.Set(CPU, 1500)
	if got := d.Format(vector); got != "1500m cpu" {
		t.Errorf("got %q", got)
	}
	vector.Set(Memory, 2<<30)
	vector.Set(gpu, 8)
	vector.Set(tpu, 1)
	if got := d.Format(vector); got != "1 acme.com/tpu, 8 nvidia.com/gpu, 1500m cpu and 2Gi memory" {
		t.Errorf("got %q", got)
	}
}

// TestNamesOfOtherNamespacesAreNotNamed: they are only counted.
func TestNamesOfOtherNamespacesAreNotNamed(t *testing.T) {
	for want, spaces := range map[string][]string{
		"":                                    nil,
		"a":                                   {"own"},
		"a, b":                                {"own", "own"},
		"a, b, c":                             {"own", "own", "own"},
		"a, b, c and 1 more":                  {"own", "own", "own", "own"},
		"1 pod of another namespace":          {"two"},
		"2 pods of other namespaces":          {"two", "three"},
		"a and 1 pod of another namespace":    {"own", "two"},
		"b, c and 2 pods of other namespaces": {"two", "own", "own", "three"},
	} {
		names := NameList{Noun: "pod", Reader: "own"}
		for i, space := range spaces {
			names.Add(space, string(rune('a'+i)))
		}
		if got := names.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestCleanTextsAreFitToBeShown, whatever users wrote.
func TestCleanTextsAreFitToBeShown(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "8 cpu": "8 cpu", "größer als 日本": "größer als 日本", "a\x1b[2J\nb\x00": `a\x1b[2J\nb\x00`, "\u202ea\u200b": `\u202ea\u200b`, "\xff": `\ufffd`,
		strings.Repeat("x", 100): strings.Repeat("x", 61) + "…", strings.Repeat("\x00", 30): strings.Repeat(`\x00`, 15) + `\…`,
	} {
		if got := Clean(text, 64); got != want || len(got) > 64 {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	refusal := &Refusal{Code: InvalidGroup, Detail: strings.Repeat("\x1b", 1<<18), Note: "x"}
	if got := refusal.String(); len(got) > MaxMessage || strings.Contains(got, "\x1b") || len(refusal.Summary()) > MaxMessage {
		t.Errorf("a refusal has %d bytes: %.60q", len(got), got)
	}
}

// TestOneAmountIsWrittenAsInAVector: and zero, which a vector leaves out.
func TestOneAmountIsWrittenAsInAVector(t *testing.T) {
	d := NewDimensions()
	d.Index("nvidia.com/gpu")
	d.Index(corev1.ResourceHugePagesPrefix + "2Mi")
	for _, task := range []*Task{{}, {Unoffered: corev1.ResourceList{"a.com/x": resource.MustParse("2"), "b.com/y": resource.MustParse("3")}}} {
		d := d.For(task)
		for position := range d.Len() {
			for _, amount := range []int64{1, 7, 1000, 1500, 1 << 30, 3 << 20, MaxAmount} {
				var vector Resources
				vector.Set(position, amount)
				if got, want := d.FormatAmount(position, amount), d.Format(vector); got != want {
					t.Errorf("%d at %d: %q, in a vector %q", amount, position, got, want)
				}
			}
			if got, want := d.FormatAmount(position, 0), "0 "+string(d.Name(position)); got != want {
				t.Errorf("zero at %d: %q, want %q", position, got, want)
			}
		}
	}
}
