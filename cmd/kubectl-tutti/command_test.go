package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// server plays both the API server and the scheduler: it answers a path with the test's text, and records what is created.
type server struct {
	*httptest.Server
	objects map[string]string
	created []string
	lock    sync.Mutex
	// queries has the last query of each path.
	queries map[string]string
}

func newServer(t *testing.T) *server {
	s := &server{objects: map[string]string{}, queries: map[string]string{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		s.lock.Lock() // discovery asks for several groups at a time
		defer s.lock.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if request.Method == http.MethodPost {
			body, err := io.ReadAll(request.Body)
			if err != nil {
				t.Error(err)
			}
			s.created = append(s.created, request.URL.Path)
			w.Header().Set("Content-Type", request.Header.Get("Content-Type"))
			_, _ = w.Write(body)
			return
		}
		s.queries[request.URL.Path] = request.URL.RawQuery
		text, known := s.selected(t, request)
		if !known {
			w.WriteHeader(http.StatusNotFound)
			text = `{kind: Status, apiVersion: v1, status: Failure, reason: NotFound, code: 404, message: "no such path"}`
		}
		asJSON, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", request.URL.Path, err)
		}
		var status metav1.Status
		if json.Unmarshal(asJSON, &status) == nil && status.Kind == "Status" && known {
			w.WriteHeader(int(status.Code))
		}
		_, _ = w.Write(asJSON)
	}))
	t.Cleanup(s.Close)
	return s
}

// selected is the answer to a request; of a list, the items that the request selects. known reports whether there is one.
func (s *server) selected(t *testing.T, request *http.Request) (text string, known bool) {
	text, known = s.objects[request.URL.Path]
	query := request.URL.Query()
	if !known || query.Get("labelSelector")+query.Get("fieldSelector") == "" {
		return text, known
	}
	var list corev1.PodList
	if err := yaml.Unmarshal([]byte(text), &list); err != nil {
		t.Error(err)
	}
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		t.Error(err)
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		t.Error(err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		phase := fields.Set{"status.phase": string(cmp.Or(pod.Status.Phase, corev1.PodPending))}
		return !byLabel.Matches(labels.Set(pod.Labels)) || !byField.Matches(phase)
	})
	left, err := json.Marshal(list)
	if err != nil {
		t.Error(err)
	}
	return string(left), true
}

// execute runs a command line against the server.
func (s *server) execute(t *testing.T, args ...string) string {
	t.Helper()
	a := &clientFlags{
		environment: func(string) string { return "" },
		now:         func() time.Time { return time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC) },
		config: &rest.Config{
			Host: s.URL, BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		},
	}
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "$SERVER", s.URL)
	}
	command := newSubcommand(a)
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetArgs(args)
	if err := command.ExecuteContext(t.Context()); err != nil {
		out.WriteString("error: " + err.Error() + "\n")
	}
	return strings.ReplaceAll(out.String(), s.URL, "$SERVER")
}

// TestCommands plays testdata: "serve PATH" sets the answer of a path, as YAML; "run" executes the words of its input, one a
// line where they contain blanks; "made" prints what was created since, "requests PATH" the last query of a path.
func TestCommands(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("stories: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s := newServer(t)
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "serve":
					s.objects[d.CmdArgs[0].Key] = d.Input
					return ""
				case "run":
					return s.execute(t, words(d.Input)...)
				case "requests":
					return s.queries[d.CmdArgs[0].Key]
				case "made":
					made := s.created
					s.created = nil
					return strings.Join(made, "\n")
				}
				t.Fatalf("unknown command %q", d.Cmd)
				return ""
			})
		})
	}
}

func words(text string) []string {
	if lines := strings.Split(text, "\n"); len(lines) > 1 {
		return lines
	}
	return strings.Fields(text)
}

// TestStructuredOutputIsWhatItSays parses the output of -o json and -o yaml, and finds the same in both.
func TestStructuredOutputIsWhatItSays(t *testing.T) {
	s := newServer(t)
	s.objects["/apis/scheduling.tutti.dev/v1alpha1/namespaces/default/podgroups"] =
		`{items: [{metadata: {name: train, namespace: default}, spec: {minMember: 2}, status: {queue: research}}]}`
	s.objects["/api/v1/namespaces/default/pods"] = `{items: []}`
	s.objects["/debug/cycles"] = `{total: 3, leading: true, cycles: [{number: 3, took: 1ms}]}`
	s.objects["/debug/nodes"] = `{nodes: [{name: n1, idle: {cpu: "2"}}]}`
	s.objects["/debug/config"] = `{source: built in, text: "actions: allocate"}`
	endpoint := []string{"--scheduler-server", s.URL, "--scheduler-insecure-skip-tls-verify", "--scheduler-token", "t"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"why":         {[]string{"why", "train"}, "research"},
		"status":      {[]string{"status"}, "research"},
		"cycle":       {append([]string{"cycle"}, endpoint...), "1ms"},
		"nodes":       {append([]string{"nodes"}, endpoint...), "n1"},
		"config show": {append([]string{"config", "show"}, endpoint...), "actions: allocate"},
	} {
		t.Run(name, func(t *testing.T) {
			asJSON := s.execute(t, slices.Concat(c.args, []string{"-o", "json"})...)
			asYAML := s.execute(t, slices.Concat(c.args, []string{"-o", "yaml"})...)
			var one, other any
			if err := json.Unmarshal([]byte(asJSON), &one); err != nil {
				t.Fatalf("%v in\n%s", err, asJSON)
			}
			if err := yaml.Unmarshal([]byte(asYAML), &other); err != nil {
				t.Fatalf("%v in\n%s", err, asYAML)
			}
			first, _ := json.Marshal(one)
			second, _ := json.Marshal(other)
			if string(first) != string(second) || !strings.Contains(string(first), c.want) {
				t.Errorf("json %s\nyaml %s\nwant %q in both", first, second, c.want)
			}
			if wrong := s.execute(t, slices.Concat(c.args, []string{"-o", "xml"})...); !strings.Contains(wrong, `--output "xml"`) {
				t.Errorf("-o xml: %s", wrong)
			}
		})
	}
}

// TestHelpHasExamples: every command with an action has an example.
func TestHelpHasExamples(t *testing.T) {
	var look func(path string, names []string)
	s := newServer(t)
	look = func(path string, names []string) {
		for _, name := range names {
			help := s.execute(t, append(strings.Fields(path), name, "--help")...)
			if !strings.Contains(help, "Examples:\n") {
				t.Errorf("%s %s: no examples in\n%s", path, name, help)
			}
		}
	}
	look("", []string{"why", "status", "nodes", "cycle", "config", "submit", "convert", "version"})
	look("config", []string{"show", "lint", "explain"})
}

func TestLintReadsFiles(t *testing.T) {
	s := newServer(t)
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := "actions: allocate, enqueue\ntiers:\n- plugins:\n  - name: gagn\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said := s.execute(t, "config", "lint", file)
	for _, want := range []string{"scheduler.yaml:1", "enqueue", "scheduler.yaml:4", `did you mean "gang"?`} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
}

// TestLintForPrograms: the output has the line numbers as fields, and an invalid configuration fails the command.
func TestLintForPrograms(t *testing.T) {
	for name, c := range map[string]struct{ text, want, fails string }{
		"refused": {
			"actions: allocate, enqueue\ntiers:\n- plugins:\n  - name: gang\n",
			`{"file":"stdin","refused":true,"errors":[{"line":1,"text":"*"}],"warnings":[]}`, "the scheduler would refuse it",
		},
		"fine": {"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n", `{"file":"stdin","refused":false,"errors":[],"warnings":[]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			command, out := newCommand(), &strings.Builder{}
			command.SetArgs([]string{"config", "lint", "-", "-o", "json"})
			command.SetIn(strings.NewReader(c.text))
			command.SetOut(out)
			command.SetErr(io.Discard)
			if err := command.ExecuteContext(t.Context()); (err == nil) != (c.fails == "") || err != nil && err.Error() != c.fails {
				t.Errorf("failed with %v, want %q", err, c.fails)
			}
			var found linted
			if err := json.Unmarshal([]byte(out.String()), &found); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			for i := range found.Errors {
				if !strings.Contains(found.Errors[i].Text, "enqueue") {
					t.Errorf("error %d is %q", i, found.Errors[i].Text)
				}
				found.Errors[i].Text = "*"
			}
			if got, err := json.Marshal(found); err != nil || string(got) != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

// TestWithoutKubeconfig: the error says where one was searched, not how the library is configured.
func TestWithoutKubeconfig(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", missing)
	command := newCommand()
	command.SetArgs([]string{"status"})
	command.SetOut(io.Discard)
	err := command.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), missing) || strings.Contains(err.Error(), "KUBERNETES_MASTER") {
		t.Errorf("without a kubeconfig: %v", err)
	}
}

// TestConvert: what files become is on one stream, and what is remarked on the other; an error leaves nothing on the first.
func TestConvert(t *testing.T) {
	directory := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	group := file("group.yaml", "apiVersion: scheduling.sigs.dev/v1alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 2, minResources: {cpu: 1}}\n")
	bare, broken := file("bare.yaml", "a:   1"), file("broken.yaml", "a: [\n---\nmetadata: {annotations: {scheduling.k8s.io/group-name: a b}}\n")
	ours := "apiVersion: scheduling.tutti.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 2}\n"
	lost := "group.yaml: document 1: PodGroup g: spec.minResources: not taken over: "
	for name, c := range map[string]struct {
		args           []string
		out            string
		remarks, fails []string
	}{
		"several":     {[]string{group, bare, group, "-"}, ours + "---\na:   1\n---\n" + ours + "---\nspec: {schedulerName: tutti}\n", []string{lost, lost}, nil},
		"as YAML":     {[]string{group, "-o", "yaml"}, ours, []string{lost}, nil},
		"broken":      {[]string{group, broken}, "", []string{lost}, []string{"broken.yaml: document 1: yaml: line 1: ", "broken.yaml: document 2: metadata.annotations["}},
		"not there":   {[]string{group, filepath.Join(directory, "none")}, "", []string{lost}, []string{"no such file"}},
		"as JSON":     {[]string{group, "-o", "json"}, "", nil, []string{`--output "json"`}},
		"without any": {nil, "", nil, []string{"give a file"}},
	} {
		t.Run(name, func(t *testing.T) {
			command, out, remarks := newCommand(), &strings.Builder{}, &strings.Builder{}
			command.SetArgs(append([]string{"convert"}, c.args...))
			command.SetIn(strings.NewReader("spec: {schedulerName: kube-batch}\n"))
			command.SetOut(out)
			command.SetErr(remarks)
			err := command.ExecuteContext(t.Context())
			if (err == nil) != (c.fails == nil) {
				t.Errorf("failed with %v, want %q", err, c.fails)
			}
			for _, want := range c.fails {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("failed with %v, want %q", err, want)
				}
			}
			if out.String() != c.out {
				t.Errorf("got\n%s\nwant\n%s", out, c.out)
			}
			lines := strings.Split(strings.TrimSuffix(remarks.String(), "\n"), "\n")
			if remarks.Len() == 0 {
				lines = nil
			}
			if !slices.EqualFunc(lines, c.remarks, func(line, want string) bool { return strings.Contains(line, want) }) {
				t.Errorf("remarks %q, want %q", lines, c.remarks)
			}
		})
	}
}
