package page

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWritePart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	write := func(name, text, want string) {
		t.Helper()
		if err := WritePart(file, name, text); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("after part %s:\n%s\nwant:\n%s", name, got, want)
		}
	}
	a, b := "<!-- measured: a -->\n\none\n\n<!-- end: a -->\n", "<!-- measured: b -->\n\ntwo\n\n<!-- end: b -->\n"
	write("a", "one\n", a)
	if err := os.WriteFile(file, []byte("# Title\n\n"+a+"\nwords\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	write("b", "two", "# Title\n\n"+a+"\nwords\n\n"+b)
	write("a", "three", "# Title\n\n<!-- measured: a -->\n\nthree\n\n<!-- end: a -->\n\nwords\n\n"+b)
}

func TestWriteWritesPicturesBesideThePage(t *testing.T) {
	folder := t.TempDir()
	if err := Write(folder, "page.md", "a", "![x](x.svg)", map[string]string{"x.svg": "<svg/>"}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"x.svg": "<svg/>", "page.md": "<!-- measured: a -->\n\n![x](x.svg)\n\n<!-- end: a -->\n",
	} {
		if got, err := os.ReadFile(filepath.Join(folder, file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
}
