package owners

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"train", "train-2", "infer", "a"}
	for name, want := range map[string]string{
		"trian": "train", "trains": "train", "train2": "train", "Infer": "infer", "something": "", "b": "", "train": "", "": "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"ab", "ba", 1}, {"abc", "axc", 1}, {"abc", "abcd", 1}, {"kitten", "sitting", 3}, {"abcd", "badc", 2}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Distance(c.b, c.a); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
