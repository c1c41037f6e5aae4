package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/version"
)

// server plays both the API server and the scheduler: it answers a path with the test's text.
type server struct {
	// asked is the last question, as YAML.
	asked string
	*httptest.Server
	objects map[string]string
	lock    sync.Mutex
}

func newServer(t *testing.T) *server {
	s := &server{objects: map[string]string{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		s.lock.Lock() // discovery asks for several groups at a time
		defer s.lock.Unlock()
		w.Header().Set("Content-Type", "application/json")
		said := s.objects[request.URL.Path]
		if handler := s.scheduler(t).Handlers()[request.URL.Path]; handler != nil && said != "" && !strings.HasPrefix(said, "{kind: Status") {
			handler.ServeHTTP(w, request)
			return
		}
		text, known := s.objects[request.URL.Path]
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

// scheduler is the source of the documents that are served.
func (s *server) scheduler(t *testing.T) debugapi.Source {
	read := func(path string, into any) {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", into), "*debugapi.")
		about := fmt.Sprintf("{kind: %s, apiVersion: %s}", kind, debugapi.GroupVersion)
		for _, text := range []string{s.objects[path], about} {
			if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	return debugapi.Source{
		Nodes: func(context.Context) (*debugapi.NodeList, error) {
			list := &debugapi.NodeList{}
			read(debugapi.PathNodes, list)
			return list, nil
		},
		Queues: func(context.Context) (*debugapi.QueueList, error) {
			list := &debugapi.QueueList{}
			read(debugapi.PathQueues, list)
			return list, nil
		},
		Domains: func(context.Context) (*debugapi.DomainList, error) {
			list := &debugapi.DomainList{}
			read(debugapi.PathDomains, list)
			return list, nil
		},
		Cycles: func() *debugapi.CycleList {
			list := &debugapi.CycleList{}
			read(debugapi.PathCycles, list)
			return list
		},
		Config: func() *debugapi.ConfigList {
			list := &debugapi.ConfigList{}
			read(debugapi.PathConfig, list)
			return list
		},
		Ask: func(_ context.Context, question *debugapi.Question) (*debugapi.Answer, error) {
			text, err := yaml.Marshal(question)
			s.asked = string(text)
			if refused := s.objects["refused"]; refused != "" {
				return nil, apierrors.NewBadRequest(refused)
			}
			answer := &debugapi.Answer{}
			read(debugapi.PathAsk, answer)
			return answer, err
		},
		Jobs: func(_ context.Context, namespace, labelSelector string) (*debugapi.JobList, error) {
			list := &debugapi.JobList{}
			read(debugapi.PathJobs, list)
			selector, err := labels.Parse(labelSelector)
			if err != nil {
				t.Error(err)
			}
			list.Items = slices.DeleteFunc(list.Items, func(job debugapi.Job) bool { return namespace != "" && job.Namespace != namespace })
			list.Select(selector)
			return list, nil
		},
	}
}

// command is a command line for the server.
func (s *server) command(t *testing.T, out io.Writer, args ...string) *cobra.Command {
	t.Helper()
	a := newClientFlags()
	a.environment = func(string) string { return "" }
	a.now = func() time.Time { return time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC) }
	*a.KubeConfig, *a.APIServer, *a.Insecure, *a.BearerToken = os.DevNull, s.URL, true, "token"
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "$SERVER", s.URL)
	}
	command := newCommand(a)
	command.SetOut(out)
	command.SetErr(out)
	command.SetArgs(args)
	return command
}

// execute runs a command line against the server.
func (s *server) execute(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := s.command(t, &out, args...).ExecuteContext(t.Context()); err != nil {
		out.WriteString("error: " + err.Error() + "\n")
	}
	return strings.ReplaceAll(out.String(), s.URL, "$SERVER")
}

// TestCommands plays testdata: "serve PATH" sets the answer of a path, as YAML; "asked" shows the last question; "run" executes
// the words of its input, one a line where they contain blanks.
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
				case "asked":
					return s.asked
				case "run":
					return s.execute(t, words(d.Input)...)
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
	s.objects["/debug/jobs"] = `{kind: JobList, leading: true, items: [{metadata: {name: train, namespace: default}, source: PodGroup, queue: research}]}`
	s.objects["/debug/cycles"] = `{kind: CycleList, total: 3, leading: true, items: [{metadata: {name: "3"}, took: 1ms}]}`
	s.objects["/debug/nodes"] = `{kind: NodeList, items: [{metadata: {name: n1}, idle: {cpu: "2"}}]}`
	s.objects["/debug/config"] = `{kind: ConfigList, items: [{metadata: {name: scheduler}, source: built in, text: "actions: allocate"}]}`
	endpoint := []string{"--scheduler-server", s.URL, "--scheduler-insecure-skip-tls-verify", "--scheduler-token", "t"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"why":        {append([]string{"why", "train"}, endpoint...), "research"},
		"status":     {append([]string{"status"}, endpoint...), "research"},
		"get cycles": {append([]string{"get", "cycles"}, endpoint...), "1ms"},
		"get nodes":  {append([]string{"get", "nodes"}, endpoint...), "n1"},
		"get config": {append([]string{"get", "config"}, endpoint...), "actions: allocate"},
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
			if wrong := s.execute(t, slices.Concat(c.args, []string{"-o", "xml"})...); !strings.Contains(wrong, `"xml"`) {
				t.Errorf("-o xml: %s", wrong)
			}
		})
	}
}

// TestVersion: of this program, and of the scheduler where it may be asked and says its own.
func TestVersion(t *testing.T) {
	s := newServer(t)
	endpoint := []string{"--scheduler-server", s.URL, "--scheduler-insecure-skip-tls-verify", "--scheduler-token", "t"}
	own := version.Version()
	const differ = "The versions differ"
	for _, c := range []struct {
		says, want string
		differ     bool
	}{
		{`{version: "` + own + `"}`, "kubectl tutti: " + own + "\nscheduler:     " + own + "\n", false},
		{`{version: 0.0.9 with go1.20}`, "kubectl tutti: " + own + "\nscheduler:     0.0.9 with go1.20\n", true},
		{`{source: built in}`, "kubectl tutti: " + own + "\nscheduler:     not known: it does not say", false},
		{"", "kubectl tutti: " + own + "\nscheduler:     not known: ", false},
	} {
		delete(s.objects, "/debug/config")
		if c.says != "" {
			s.objects["/debug/config"] = "{kind: ConfigList, items: [" + c.says + "]}"
		}
		if got := s.execute(t, append([]string{"version"}, endpoint...)...); !strings.HasPrefix(got, c.want) || strings.Contains(got, differ) != c.differ {
			t.Errorf("a scheduler that says %s: %q\nwant %q", c.says, got, c.want)
		}
	}
	s.objects["/debug/config"] = "{kind: ConfigList, items: [{version: 0.0.9}]}"
	if got := s.execute(t, append([]string{"version", "-o", "yaml"}, endpoint...)...); !strings.Contains(got, "scheduler: 0.0.9\nversion: "+own+"\n") {
		t.Errorf("as YAML:\n%s", got)
	}
	s.Close()
	if got := s.execute(t, "version", "--client"); got != "kubectl tutti: "+own+"\n" {
		t.Errorf("--client without a cluster: %q", got)
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
	look("", []string{"why", "status", "get", "pause", "resume", "version"})
}

// TestWithoutKubeconfig: the error says where one was searched, not how the library is configured.
func TestWithoutKubeconfig(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", missing)
	command := newCommand(newClientFlags())
	command.SetArgs([]string{"status"})
	command.SetOut(io.Discard)
	err := command.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), missing) || strings.Contains(err.Error(), "KUBERNETES_MASTER") {
		t.Errorf("without a kubeconfig: %v", err)
	}
}

// TestRemovedVerbsSayWhatToWrite: a removed verb is refused by name, with its flags and arguments.
func TestRemovedVerbsSayWhatToWrite(t *testing.T) {
	s := newServer(t)
	for line, want := range map[string]string{
		"nodes --topology b1":        `write "get nodes"`,
		"queues pause research":      `"pause NAME"`,
		"queues -o wide":             `write "get queues"`,
		"cycle --last 3 --deciding":  `write "get cycles"`,
		"config lint scheduler.yaml": "--explain-config",
		"submit hello --members 2":   "write a PodGroup and a Job",
		"convert job.yaml":           "docs/from-*.md",
	} {
		said := s.execute(t, strings.Fields(line)...)
		verb, _, _ := strings.Cut(line, " ")
		if !strings.Contains(said, fmt.Sprintf("error: there is no %q: ", verb)) || !strings.Contains(said, want) {
			t.Errorf("%s: %s", line, said)
		}
	}
	if help := s.execute(t, "--help"); strings.Contains(help, "submit") || strings.Contains(help, "convert") {
		t.Errorf("help names what is removed:\n%s", help)
	}
}
