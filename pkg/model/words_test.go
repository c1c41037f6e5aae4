package model

import "testing"

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
