package v1alpha1

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func known() Known {
	return Known{
		Actions: []string{"allocate", "backfill"},
		Plugins: []string{"gang", "nodeorder", "predicates", "priority"},
	}
}

// built is what the built-in configuration needs.
func built() Known {
	all := known()
	all.Actions, all.Plugins = append(all.Actions, "preempt", "reclaim"), append(all.Plugins, "conformance", "isolcpu", "proportion")
	return all
}

// TestDecode plays testdata/*.txt: each case is a file, and what is said about it. Run with -rewrite to record answers.
func TestDecode(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "decode" {
				d.Fatalf(t, "unknown directive %q", d.Cmd)
			}
			config, warnings, err := Decode("scheduler.yaml", []byte(d.Input), known())
			if (config == nil) == (err == nil) {
				t.Fatalf("%s: want either a configuration or an error, got %v and %v", d.Pos, config, err)
			}
			var out strings.Builder
			if err != nil {
				fmt.Fprintln(&out, err)
			}
			for _, w := range warnings {
				fmt.Fprintf(&out, "warning: %s\n", w)
			}
			if config != nil {
				out.WriteString(show(config))
			}
			return out.String()
		})
	})
}

// show lists a configuration, one action or plugin a line, each with its line in the file.
func show(c *Configuration) string {
	var out strings.Builder
	if c.Pause {
		out.WriteString("paused\n")
	}
	if !slices.Equal(c.SourcesOff, SourcesOffByDefault()) {
		fmt.Fprintf(&out, "sources that are off: %s\n", list(c.SourcesOff))
	}
	for _, tree := range c.Topologies {
		fmt.Fprintf(&out, "topology %s: %v\n", tree.Name, tree.Levels)
	}
	for _, a := range c.Actions {
		fmt.Fprintf(&out, "%d: action %s%s\n", a.Position.Line, a.Name, showArguments(a.Arguments))
	}
	for i, tier := range c.Tiers {
		for _, p := range tier.Plugins {
			fmt.Fprintf(&out, "%d: tier %d: %s%s", p.Position.Line, i+1, p.Name, showArguments(p.Arguments))
			if len(p.Disable) > 0 {
				fmt.Fprintf(&out, ", not asked for %s", list(p.Disable))
			}
			out.WriteByte('\n')
		}
	}
	return out.String()
}

func showArguments(a Arguments) string {
	var out strings.Builder
	for _, name := range a.Names() {
		text, _ := a.Raw(name)
		fmt.Fprintf(&out, " %s=%q", name, text)
	}
	return out.String()
}

func TestDefaultDecodesAndWarnsOfNothing(t *testing.T) {
	config, err := Default(built())
	if err != nil {
		t.Fatal(err)
	}
	want := "4: action allocate\n4: action backfill\n4: action reclaim\n4: action preempt\n7: tier 1: priority\n8: tier 1: gang\n" +
		"9: tier 1: conformance\n11: tier 2: predicates\n12: tier 2: nodeorder\n13: tier 2: isolcpu\n14: tier 2: proportion\n"
	if diff := cmp.Diff(want, show(config)); diff != "" {
		t.Errorf("the built-in configuration (-want +got):\n%s", diff)
	}
	if _, err := Default(Known{}); err == nil {
		t.Error("a build without actions and plugins took the built-in configuration")
	}
}

// TestEveryNameOfVolcanosIsRefusedUntilItIsKnown, with what to write in its place. Switches are never known.
func TestEveryNameOfVolcanosIsRefusedUntilItIsKnown(t *testing.T) {
	has := Known{Actions: []string{"allocate"}, Plugins: []string{"gang"}}
	texts := map[string]string{
		"action": "actions: \"allocate, %s\"\ntiers: [{plugins: [{name: gang}]}]",
		"plugin": "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: %s}]}]",
		"switch": "actions: allocate\ntiers: [{plugins: [{name: gang, %s: true}]}]",
	}
	for noun, names := range volcanos {
		for name, instead := range names {
			text := fmt.Appendf(nil, texts[noun], name)
			_, _, err := Decode("f", text, has)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s %q is Volcano's: take it out; %s", noun, name, instead)) {
				t.Errorf("%s %s, which does not exist: %v", noun, name, err)
			}
			with := Known{append([]string{name}, has.Actions...), append([]string{name}, has.Plugins...)}
			if _, _, err := Decode("f", text, with); (err == nil) != (noun != "switch") {
				t.Errorf("%s %s, which exists: %v", noun, name, err)
			}
		}
	}
}

func TestErrorsTakesApartWhatDecodeJoined(t *testing.T) {
	_, _, err := Decode("f", []byte("actions: allocat\ntiers:\n- plugin: []\n"), known())
	var lines []int
	for _, e := range Errors(fmt.Errorf("load configuration: %w", err)) {
		lines = append(lines, e.Position.Line)
	}
	if diff := cmp.Diff([]int{1, 3, 3}, lines); diff != "" {
		t.Errorf("lines of the errors (-want +got):\n%s\n%v", diff, err)
	}
	if Errors(nil) != nil {
		t.Error("no error came apart into some")
	}
}

// FuzzDecode checks for any text that Decode returns either a configuration or errors that name the file, the same each
// time, and that a configuration written out again decodes to itself.
func FuzzDecode(f *testing.F) {
	f.Add(defaultYAML)
	f.Add("actions: \"allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n    enableJobOrder: false\n")
	f.Add("actions: allocate\ntiers: [{plugins: [{name: nodeorder, arguments: {a: \"2\", b: 0x1, c: ''}}]}]\n" +
		"configurations: [{name: allocate, arguments: {d: 10m}}]\n")
	f.Add("tiers: &a [*a]\n<<: *a\n? [x]\n: y\n--- !!bool z\n")
	f.Add("a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\ntiers: *c\nactions: *b\n")
	f.Add("tiers:\n- plugins: &p\n  - name: gang\n    arguments: &m\n      <<: *m\n- plugins: *p\nactions: !!binary aaaa\n")
	f.Fuzz(func(t *testing.T, text string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := time.Now()
		config, warnings, err := Decode("f", []byte(text), known())
		took := time.Since(begun)
		held := os.Getenv("HOLD_TIMES") == "1" // on another machine what is allocated says how much work it is
		if runtime.ReadMemStats(&after); held && took > 20*time.Second || after.TotalAlloc-before.TotalAlloc > 512<<20 {
			t.Fatalf("one text took %s and %d MiB", took, (after.TotalAlloc-before.TotalAlloc)>>20)
		}
		again, warningsAgain, errAgain := Decode("f", []byte(text), known())
		if fmt.Sprint(err) != fmt.Sprint(errAgain) || !cmp.Equal(warnings, warningsAgain) {
			t.Fatalf("two readings of one text:\n%v %v\n%v %v", err, warnings, errAgain, warningsAgain)
		}
		if err != nil {
			for _, e := range Errors(err) {
				if e.Position.File != "f" || e.Position.Line < 1 {
					t.Errorf("an error without a place: %v", e)
				}
			}
			if config != nil || len(Errors(err)) == 0 {
				t.Errorf("configuration %v together with %d errors", config, len(Errors(err)))
			}
			return
		}
		if diff := cmp.Diff(show(config), show(again)); diff != "" {
			t.Fatalf("two readings of one text:\n%s", diff)
		}
		back, _, err := Decode("f", encode(t, config), known())
		if err != nil {
			t.Fatalf("written out again: %v\n%s", err, encode(t, config))
		}
		if diff := cmp.Diff(withoutLines(config), withoutLines(back)); diff != "" {
			t.Errorf("written out again, it reads otherwise:\n%s", diff)
		}
	})
}

func withoutLines(c *Configuration) string {
	var out strings.Builder
	for _, line := range strings.SplitAfter(show(c), "\n") {
		_, rest, _ := strings.Cut(line, ": ")
		out.WriteString(rest)
	}
	return out.String()
}

// encode writes a configuration in the grammar that Decode reads.
func encode(t *testing.T, c *Configuration) []byte {
	t.Helper()
	var names []string
	var configurations, tiers []map[string]any
	for _, a := range c.Actions {
		names = append(names, a.Name)
		configurations = append(configurations, map[string]any{"name": a.Name, "arguments": encodeArguments(a.Arguments)})
	}
	for _, tier := range c.Tiers {
		var plugins []map[string]any
		for _, p := range tier.Plugins {
			plugins = append(plugins, map[string]any{
				"name": p.Name, "disable": p.Disable, "arguments": encodeArguments(p.Arguments),
			})
		}
		tiers = append(tiers, map[string]any{"plugins": plugins})
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": APIVersion, "actions": strings.Join(names, ", "), "tiers": tiers, "configurations": configurations,
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func encodeArguments(a Arguments) map[string]string {
	all := map[string]string{}
	for _, name := range a.Names() {
		all[name], _ = a.Raw(name)
	}
	return all
}
