package enforce

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// TestStories plays the stories in testdata on node n1. Each line of input is one pod or one container: words, and key=value
// pairs. "configure" sets the view; "pod SANDBOX uid=… ns=… asks=… assigned=…" adds a sandbox, with its annotations: "stopped"
// makes it one that has ended; assigned=main:4-5;side:6 is an assignment of those, for=UID and on=NODE make it that of another
// pod or node, and text=… replaces it.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		story := &story{machine: New("n1"), pods: map[string]*Pod{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return story.play(t, d)
		})
	})
}

type story struct {
	machine *Enforcer
	pods    map[string]*Pod
}

func (s *story) play(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	switch d.Cmd {
	case "configure":
		s.machine.Configure(View{
			Isolated: set(t, d, "isolated"), Online: set(t, d, "online"), Closed: word(d, "closed"),
			NUMA: []isolated.NUMANode{{ID: 0, CPUs: isolated.NewCPUSet(4, 5)}, {ID: 1, CPUs: isolated.NewCPUSet(6, 7)}},
		})
	case "pods":
		for line := range strings.Lines(d.Input) {
			pod := s.pod(t, d, line)
			s.pods[pod.Sandbox] = pod
		}
	case "create":
		for line := range strings.Lines(d.Input) {
			c := containerOf(t, d, line)
			placed, refusal := s.machine.Create(s.pods[c.Sandbox], c)
			if refusal != nil {
				fmt.Fprintf(&out, "%s: refused: %s\n", c.ID, refusal.Error())
				continue
			}
			fmt.Fprintf(&out, "%s: %s\n", c.ID, said(placed))
		}
	case "update":
		for line := range strings.Lines(d.Input) {
			c := containerOf(t, d, line)
			fmt.Fprintf(&out, "%s: %s\n", c.ID, said(s.machine.Update(s.pods[c.Sandbox], c)))
		}
	case "synchronize":
		s.synchronize(t, d, &out)
	case "stop":
		s.machine.Stop(d.CmdArgs[0].Key)
	case "stop-sandbox":
		s.machine.StopSandbox(d.CmdArgs[0].Key)
	case "remove-sandbox":
		s.machine.RemoveSandbox(d.CmdArgs[0].Key)
	case "behind":
		for _, change := range s.machine.Outdated(d.HasArg("all")) {
			fmt.Fprintf(&out, "%s: %s\n", change.Container, said(change.Placement))
			if d.HasArg("applied") {
				s.machine.Applied(&change)
			}
		}
	default:
		d.Fatalf(t, "%s is no command", d.Cmd)
	}
	return out.String() + s.state()
}

func (s *story) synchronize(t *testing.T, d *datadriven.TestData, out *strings.Builder) {
	var pods []Pod
	var containers []Container
	for line := range strings.Lines(d.Input) {
		c := containerOf(t, d, line)
		containers = append(containers, *c)
		known := slices.ContainsFunc(pods, func(p Pod) bool { return p.Sandbox == c.Sandbox })
		if pod := s.pods[c.Sandbox]; pod != nil && !known {
			pods = append(pods, *pod)
		}
	}
	moves, conflicts := s.machine.Synchronize(pods, containers)
	for _, conflict := range conflicts {
		fmt.Fprintf(out, "conflict: %s of %s: %s\n", conflict.Container, conflict.Pod.Name, conflict.Refusal.Error())
	}
	for _, change := range moves {
		fmt.Fprintf(out, "move %s: %s\n", change.Container, said(change.Placement))
	}
}

// state lists which pods hold which CPUs.
func (s *story) state() string {
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(s.machine.sandboxes)) {
		if b := s.machine.sandboxes[id]; !b.holds.Empty() {
			fmt.Fprintf(&out, "%s holds %s\n", id, b.holds)
		}
	}
	return out.String()
}

func said(p Placement) string {
	switch {
	case p.CPUs.Empty():
		return "as it is"
	case p.Isolated:
		return fmt.Sprintf("own %s of NUMA %s", p.CPUs, p.NUMA)
	}
	return "ordinary " + p.CPUs.String()
}

// words splits a line into its first words and its key=value pairs; a value goes to the end of the line after "text=".
func words(line string) (plain []string, values map[string]string) {
	values = map[string]string{}
	line, text, is := strings.Cut(strings.TrimSpace(line), " text=")
	if is {
		values["text"] = text
	}
	for field := range strings.FieldsSeq(line) {
		if key, value, is := strings.Cut(field, "="); is {
			values[key] = value
		} else {
			plain = append(plain, field)
		}
	}
	return plain, values
}

func (s *story) pod(t *testing.T, d *datadriven.TestData, line string) *Pod {
	plain, values := words(line)
	pod := &Pod{Stopped: slices.Contains(plain, "stopped"), Sandbox: plain[0], UID: values["uid"], Namespace: cmp.Or(values["ns"], "ns"), Name: "pod-" + plain[0], Annotations: map[string]string{}}
	if asks, is := values["asks"]; is {
		pod.Annotations[isolated.RequestAnnotation] = asks
	}
	if text, is := values["text"]; is {
		pod.Annotations[isolated.AssignedAnnotation] = text
	}
	if list, is := values["assigned"]; is {
		a := isolated.Assignment{Version: 1, Node: "n1", UID: pod.UID, Containers: map[string]isolated.CPUSet{}}
		for part := range strings.SplitSeq(list, ";") {
			name, cpus, _ := strings.Cut(part, ":")
			own, err := isolated.ParseSet(cpus)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			a.Containers[name], a.CPUs = own, a.CPUs.Union(own)
		}
		if of, is := values["for"]; is {
			a.UID = of
		}
		if on, is := values["on"]; is {
			a.Node = on
		}
		text, err := a.Text()
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		pod.Annotations[isolated.AssignedAnnotation] = text
	}
	return pod
}

func containerOf(t *testing.T, d *datadriven.TestData, line string) *Container {
	plain, values := words(line)
	if len(plain) < 3 {
		d.Fatalf(t, "a container is ID SANDBOX NAME: %q", line)
	}
	c := &Container{ID: plain[0], Sandbox: plain[1], Name: plain[2], CPUs: values["cpus"], Stopped: slices.Contains(plain, "stopped"),
		Limited: slices.Contains(plain, "limited")}
	if at, is := values["at"]; is {
		fmt.Sscan(at, &c.Created)
	}
	return c
}

func set(t *testing.T, d *datadriven.TestData, key string) isolated.CPUSet {
	s, err := isolated.ParseSet(word(d, key))
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return s
}

// word returns the values of an argument as one text; the commas of a list make several.
func word(d *datadriven.TestData, key string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			return strings.Join(arg.Vals, ",")
		}
	}
	return ""
}
