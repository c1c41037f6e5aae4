package convert

import (
	"strings"
	"testing"
	"unicode"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// TestQueues plays testdata: "queues" converts its input.
func TestQueues(t *testing.T) {
	datadriven.RunTest(t, "testdata/queues.txt", func(t *testing.T, d *datadriven.TestData) string {
		queues, err := Queues(strings.NewReader(d.Input))
		if err != nil {
			if queues != nil {
				t.Errorf("queues besides an error: %v", queues)
			}
			return "error: " + err.Error() + "\n"
		}
		var out strings.Builder
		for _, queue := range queues {
			for _, remark := range queue.Remarks {
				out.WriteString("# " + remark + "\n")
			}
			text, err := yaml.Marshal(queue)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(text)
		}
		return out.String()
	})
}

// TestFile plays testdata: "convert" translates its input, and prints what is remarked. A translation has nothing left to
// translate.
func TestFile(t *testing.T) {
	datadriven.RunTest(t, "testdata/kube-batch.txt", func(t *testing.T, d *datadriven.TestData) string {
		input := strings.ReplaceAll(d.Input, "<tab>", "\t")
		translated, remarks, err := File([]byte(input))
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		if again, _, err := File(translated); err != nil || string(again) != string(translated) {
			t.Errorf("translated again: %v\n%s", err, again)
		}
		var out strings.Builder
		if string(translated) == input {
			out.WriteString("unchanged\n")
		} else {
			out.Write(translated)
			out.WriteString("\n")
		}
		for _, remark := range remarks {
			out.WriteString("remark: " + remark.String() + "\n")
		}
		return out.String()
	})
}

// TestFileKeepsValues: a document that is written again says the same as before, but for what is kube-batch's.
func TestFileKeepsValues(t *testing.T) {
	words := rapid.StringOf(rapid.OneOf(rapid.Rune().Filter(unicode.IsPrint), rapid.SampledFrom([]rune("\n\t :#-"))))
	scalar := rapid.OneOf(words.AsAny(), rapid.Int32().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil),
		rapid.SampledFrom([]any{"yes", "0o7", "1e3", "~", "- a", "# no", "a: b", "<<", "*a", "&a", "!!str", "|", ">-", "2020-01-01", "'", "\"", "\n\n x\n", "---\n"}))
	var valueOf func(depth int) *rapid.Generator[any]
	valueOf = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return scalar
		}
		below := valueOf(depth - 1)
		key := rapid.OneOf(words, rapid.SampledFrom([]string{"spec", "metadata", "yes", "1", "a.b/c", "", "labels"}))
		return rapid.OneOf(scalar, rapid.SliceOfN(below, 0, 3).AsAny(), rapid.MapOfN(key, below, 0, 4).AsAny())
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 { // a hundred checks, unless more are asked for
			document := map[string]any{"more": valueOf(3).Draw(t, "more"), "spec": map[string]any{"schedulerName": "kube-batch"}}
			text, err := yaml.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			translated, _, err := File(text)
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			var before, after map[string]any
			if err := yaml.Unmarshal(text, &before); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(translated, &after); err != nil {
				t.Fatalf("%v in\n%s", err, translated)
			}
			before["spec"] = map[string]any{"schedulerName": "tutti"}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Fatalf("%s\nin\n%s\ntranslated\n%s", diff, text, translated)
			}
		}
	})
}
