package docs

import (
	"slices"
	"strings"
	"testing"
)

const fence = "```"

const page = `# Title

` + fence + `yaml
$ not: a command
` + fence + `

Do:

` + fence + `console
$ kubectl apply -f a.yaml \
    --server-side       # twice
$ kubectl get podgroups
NAME   AGE
mpi    9s

$ cat <<'END' | kubectl apply -f -
kind: PodGroup
END
` + fence + `

1. Push:

   <!-- not run: it pushes to a registry -->

   ` + fence + `console
   $ docker push x
   ` + fence + `

` + fence + `sh
for i in 1 2; do
  echo $i
done
` + fence + `
`

func TestParse(t *testing.T) {
	blocks, err := Parse("page.md", page)
	if err != nil {
		t.Fatal(err)
	}
	if len(blocks) != 3 {
		t.Fatalf("%d blocks, want 3: %+v", len(blocks), blocks)
	}
	first := blocks[0].Commands
	want := []string{
		"kubectl apply -f a.yaml \\\n    --server-side       # twice", "kubectl get podgroups",
		"cat <<'END' | kubectl apply -f -\nkind: PodGroup\nEND",
	}
	var got []string
	for _, command := range first {
		got = append(got, command.Text)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("commands %q\nwant %q", got, want)
	}
	if want := []string{"NAME   AGE", "mpi    9s"}; !slices.Equal(first[1].Want, want) || first[1].Line != 12 {
		t.Errorf("line %d shows %q, want line 12 and %q", first[1].Line, first[1].Want, want)
	}
	if blocks[0].NotRun != "" || blocks[1].NotRun != "it pushes to a registry" || blocks[2].NotRun != "" {
		t.Errorf("reasons: %q, %q, %q", blocks[0].NotRun, blocks[1].NotRun, blocks[2].NotRun)
	}
	if got := blocks[1].Commands[0].Text; got != "docker push x" {
		t.Errorf("a block in a list: %q", got)
	}
	if got := blocks[2].Commands; len(got) != 1 || !strings.HasPrefix(got[0].Text, "for i") {
		t.Errorf("a script: %+v", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		fence + "console\n$ a\n":                                  "not closed",
		fence + "yaml\na: b\n":                                    "not closed",
		fence + "console\na\n" + fence + "\n":                     "no line of the block begins",
		"<!-- not run: -->\n" + fence + "console\n$ a\n" + fence:  "does not say why",
		"<!-- not run -->\n\n" + fence + "console\n$ a\n" + fence: "does not say why",
	} {
		if _, err := Parse("page.md", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %q in it", text, err, want)
		}
	}
}

func TestShows(t *testing.T) {
	const printed = "NAME    PHASE     AGE\nmpi     Running   2m10s\nother   Pending   1s\n"
	for _, c := range []struct {
		want string
		so   bool
	}{
		{"NAME PHASE AGE", true},
		{"NAME PHASE AGE\nmpi  Running  9s", true},
		{"NAME PHASE AGE\nother Pending 9s", true},
		{"other Pending 9s\nmpi Running 9s", false}, // not in this order
		{"mpi Pending 9s", false},
		{"mpi Running", false}, // a line is shown whole
		{"mpi …", true},
		{"m… Running …", true},
		{"mpi Running 9", false}, // no age
	} {
		if err := Shows(strings.Split(c.want, "\n"), printed); (err == nil) != c.so {
			t.Errorf("%q: %v, want it found: %t", c.want, err, c.so)
		}
	}
}
