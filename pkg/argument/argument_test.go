package argument_test

import (
	"fmt"
	"testing"
	"time"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/argument"
)

func declared() argument.List {
	return argument.List{
		argument.Int("number", 3, 1, 9).InUnit("gangs").WithHelp("how many"),
		argument.Bool("switch", true),
		argument.Duration("span", 90*time.Minute, time.Second),
		argument.Duration("until", 10*time.Minute, 0).OrWord("never", "always"),
		argument.Text("text", "a").WithFormat("letters"),
		argument.OneOf("word", "one", "one", "two", "three"),
		argument.Texts("texts"),
		argument.Bool("old", false).Ignored("it is not needed"),
		argument.Mapping("inside", argument.Int("deep", 1, 0, 1)),
	}
}

func read(given map[string]string) (argument.Values, *config.Reader) {
	reader := config.NewArguments("plugin x", given).Reader()
	values := declared().Read(reader)
	reader.Section("inside")
	return values, reader
}

func show(v argument.Values) string {
	return fmt.Sprintf("%d %t %s %s %q %s %s %v %t", v.Int("number"), v.Bool("switch"), v.Duration("span"), v.Duration("until"),
		v.Text("until"), v.Text("text"), v.Text("word"), v.Texts("texts"), v.Bool("old"))
}

func TestDefaultsAreAsDeclared(t *testing.T) {
	values, reader := read(nil)
	if got, want := show(values), `3 true 1h30m0s 10m0s "" a one [] false`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := reader.Finish(); err != nil || len(reader.Warnings()) > 0 {
		t.Errorf("%v, %v", err, reader.Warnings())
	}
}

func TestValuesAreReadByType(t *testing.T) {
	values, reader := read(map[string]string{
		"number": "9", "switch": "false", "span": "2s", "until": "never", "text": "b", "word": "two", "old": "true",
	})
	if got, want := show(values), `9 false 2s 0s "never" b two [] true`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	warnings := reader.Warnings()
	if err := reader.Finish(); err != nil || len(warnings) != 1 ||
		warnings[0].Text != "plugin x: argument old has no effect: it is not needed" {
		t.Errorf("%v, %v", err, warnings)
	}
}

func TestWhatIsOutOfRangeIsRefusedAndTheDefaultKept(t *testing.T) {
	for name, value := range map[string]string{
		"number": "10", "switch": "maybe", "span": "10ms", "until": "soon", "word": "four", "unknown": "1",
	} {
		values, reader := read(map[string]string{name: value})
		if reader.Finish() == nil {
			t.Errorf("%s: %s is no error", name, value)
		}
		if got, want := show(values), `3 true 1h30m0s 10m0s "" a one [] false`; got != want {
			t.Errorf("%s: %s: got %s, want %s", name, value, got, want)
		}
	}
}

func TestRequired(t *testing.T) {
	reader := config.NewArguments("plugin x", nil).Reader()
	argument.List{argument.Text("must", "").MarkRequired()}.Read(reader)
	if got, want := fmt.Sprint(reader.Finish()), "plugin x: argument must is missing"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRange(t *testing.T) {
	want := []string{
		"whole number of gangs, 1 to 9", "true or false", "time span such as 90s or 10m, at least 1s",
		"time span such as 90s or 10m, or never or always", "text: letters", "one, two or three", "list of texts", "true or false", "mapping",
	}
	for i, a := range declared() {
		if got := a.Range(); got != want[i] {
			t.Errorf("%s takes %q, want %q", a.Name, got, want[i])
		}
	}
	for span, want := range map[time.Duration]string{
		10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Second: "1m30s", 0: "0s", 5 * time.Second: "5s", 20 * time.Minute: "20m",
		100 * time.Hour: "100h",
	} {
		if got := argument.Duration("x", span, 0).Default; got != want {
			t.Errorf("%s is written %q, want %q", span, got, want)
		}
	}
}
