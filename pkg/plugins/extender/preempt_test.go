package extender

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unique"

	"github.com/google/go-cmp/cmp"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// plan is a plan on nodes a and b: v1 and v2 are evicted from a, v3 from b, v0 is terminating on a anyway, and bystanders
// stay.
func plan(snapshot *model.Snapshot, onA, onB []*model.Task) []framework.NodeVictims {
	on := func(node *model.Node, status model.Status, names ...string) (tasks []*model.Task) {
		for _, name := range names {
			pod := task(name)
			pod.Status, pod.Node = status, node.Name
			node.Tasks, tasks = append(node.Tasks, pod), append(tasks, pod)
		}
		return tasks
	}
	a, b := snapshot.Node("a"), snapshot.Node("b")
	on(a, model.Releasing, "v0")
	on(a, model.Running, "by1")
	on(b, model.Running, "by2")
	return []framework.NodeVictims{
		{Node: a, Members: onA, Victims: on(a, model.Releasing, "v1", "v2"), Violations: 1},
		{Node: b, Members: onB, Victims: on(b, model.Releasing, "v3")},
	}
}

// review calls the plugin with these extenders; the result has the rejections, or is the refusal.
func review(t testing.TB, options []Options, onA, onB []*model.Task) string {
	t.Helper()
	snapshot := cluster("a", "b", "c")
	session := engine.Open(snapshot, profile(t, options), engine.Options{})
	defer session.Close()
	objections, refusal := session.ProcessPreemption(&model.Job{}, plan(snapshot, onA, onB))
	if refusal != nil {
		return fmt.Sprintf("%s expires=%t", refusal, refusal.Transient)
	}
	var parts []string
	for _, o := range objections {
		parts = append(parts, o.Node.Name+": by "+o.By)
	}
	return strings.Join(parts, ", ")
}

func preempts(s *server) Options {
	return Options{URLPrefix: s.prefix(), PreemptVerb: "preempt", NodeCacheCapable: true}
}

const (
	agreed = `{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"uid-v2"},{"UID":"uid-v1"}]},"b":{"Pods":[{"UID":"uid-v3"}]}}}`
	onlyB  = `{"NodeNameToMetaVictims":{"b":{"Pods":[{"UID":"uid-v3"}]}}}`
)

func TestWhatIsAskedAboutVictims(t *testing.T) {
	pod := func(name string) string {
		return `{"metadata":{"name":"` + name + `","namespace":"ns","uid":"uid-` + name + `"},` +
			`"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"1"}}}]},"status":{}}`
	}
	for _, c := range []struct {
		name    string
		capable bool
		want    string
	}{
		{
			"UIDs", true, `preempt {"Pod":` + pod("m1") + `,"NodeNameToVictims":null,"NodeNameToMetaVictims":{` +
				`"a":{"Pods":[{"UID":"uid-v1"},{"UID":"uid-v2"}],"NumPDBViolations":1},` +
				`"b":{"Pods":[{"UID":"uid-v3"}],"NumPDBViolations":0}}}`,
		}, {
			"pods", false, `preempt {"Pod":` + pod("m1") + `,"NodeNameToVictims":{` +
				`"a":{"Pods":[` + pod("v1") + `,` + pod("v2") + `],"NumPDBViolations":1},` +
				`"b":{"Pods":[` + pod("v3") + `],"NumPDBViolations":0}},"NodeNameToMetaVictims":null}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := says(t, map[string]string{"preempt": agreed})
			options := preempts(s)
			options.NodeCacheCapable = c.capable
			if got := review(t, []Options{options}, []*model.Task{task("m1"), task("m2")}, []*model.Task{task("m3")}); got != "" {
				t.Errorf("the extender agrees, and we hear %s", got)
			}
			if diff := cmp.Diff([]string{c.want}, s.taken()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswersAboutVictims(t *testing.T) {
	meta := func(nodes string) string { return `{"NodeNameToMetaVictims":{` + nodes + `}}` }
	const b, others = `"b":{"Pods":[{"UID":"uid-v3"}]}`, "a: by extender URL (it names other victims)"
	for _, c := range []struct {
		name, answer string
		ignorable    bool
		want         string
	}{
		{"agreed", agreed, false, ""},
		{"a left out", onlyB, false, "a: by extender URL"},
		{"none left", `{}`, false, "a: by extender URL, b: by extender URL"},
		{"fewer", meta(`"a":{"Pods":[{"UID":"uid-v2"}]},` + b), false, others},
		{"others", meta(`"a":{"Pods":[{"UID":"uid-by1"}]},` + b), false, others},
		{"more", meta(`"a":{"Pods":[{"UID":"uid-v1"},{"UID":"uid-v2"},{"UID":"uid-by1"}]},` + b), false, others},
		{
			"one that leaves anyway, and one twice",
			meta(`"a":{"Pods":[{"UID":"uid-v1"},{"UID":"uid-v0"},{"UID":"uid-v2"},{"UID":"uid-v2"}]},` + b), false, "",
		},
		{"a pod of another node", meta(`"a":{"Pods":[{"UID":"uid-v3"}]},` + b), false, others},
		{"no pod", meta(`"a":{"Pods":[null]},` + b), false, others},
		{"no victim", meta(`"a":{"Pods":[]},` + b), false, others},
		{"nothing", meta(`"a":null,` + b), false, "a: by extender URL"},
		{"another node", meta(`"c":{"Pods":[{"UID":"uid-v3"}]},` + b), false,
			`extender URL: preempt: it names node c, about which it was not asked expires=true`},
		{"another node, ignorable", meta(`"c":{"Pods":[{"UID":"uid-v3"}]},` + b), true, ""},
		{"no JSON", `<html>`, false,
			`extender URL: preempt: invalid character '<' looking for beginning of value expires=true`},
		{"no JSON, ignorable", `<html>`, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := says(t, map[string]string{"preempt": c.answer})
			options := preempts(s)
			options.Ignorable = c.ignorable
			got := review(t, []Options{options}, []*model.Task{task("m1")}, []*model.Task{task("m2")})
			if got = strings.ReplaceAll(got, s.prefix(), "URL"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestVictimsAreAskedAboutByKind: one call for all equal members, with the nodes where such get capacity; an extender that
// manages none of their resources, or has no verb, is not called.
func TestVictimsAreAskedAboutByKind(t *testing.T) {
	none := says(t, nil)
	shares := serve(t, func(_, body string) (int, string) {
		if strings.Contains(body, `"b":`) {
			return http.StatusOK, `{"NodeNameToMetaVictims":{"b":{"Pods":[{"UID":"uid-by2"}]}}}`
		}
		return http.StatusOK, `{}`
	})
	allPods := serve(t, func(_, body string) (int, string) {
		if strings.Contains(body, `"b":`) {
			return http.StatusOK, agreed
		}
		return http.StatusOK, `{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"uid-v1"},{"UID":"uid-v2"}]}}}`
	})
	some := preempts(shares)
	some.ManagedResources = []ManagedResource{{"example.com/share", false}}
	options := []Options{{URLPrefix: none.prefix(), FilterVerb: "f"}, preempts(allPods), some}
	share := func(name string) *model.Task {
		other := task(name, "example.com/share", "1")
		other.Shape = unique.Make("a share")
		return other
	}
	onA, onB := []*model.Task{task("m1"), task("m2"), share("s1")}, []*model.Task{share("s2"), share("s3")}
	if got := review(t, options, onA, nil); got != "a: by extender "+shares.prefix() {
		t.Errorf("got %s", got)
	}
	if n, m := len(allPods.taken()), len(shares.taken()); n != 2 || m != 1 {
		t.Errorf("who is asked about two kinds on one node was called %d times, who is about one %d times", n, m)
	}
	if got := review(t, options, onA, onB); got != "a: by extender "+shares.prefix()+", b: by extender "+shares.prefix()+" (it names other victims)" {
		t.Errorf("got %s", got)
	}
	calls := allPods.taken()
	if len(calls) != 2 || strings.Contains(calls[0], `"b":`) || !strings.Contains(calls[0], `"name":"m1"`) || !strings.Contains(calls[1], `"name":"s1"`) {
		t.Errorf("calls %v: the first kind is on a alone, and m1 and s1 stand for theirs", calls)
	}
	if calls := none.taken(); len(calls) > 0 {
		t.Errorf("who has no verb was sent %v", calls)
	}
}

// TestKindsThatDifferAboutANode: a node to which an extender objects for members of several kinds is named once.
func TestKindsThatDifferAboutANode(t *testing.T) {
	s := serve(t, func(_, body string) (int, string) {
		victim := "uid-v1"
		if strings.Contains(body, `"name":"s1"`) {
			victim = "uid-v2"
		}
		return http.StatusOK, `{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"` + victim + `"}]}}}`
	})
	if got := review(t, []Options{preempts(s)}, []*model.Task{task("m1"), task("s1", "example.com/share", "1")}, nil); got != "a: by extender "+s.prefix()+" (it names other victims)" {
		t.Errorf("got %s", got)
	}
}

// TestTheFirstThatDoesNotAgreeIsHeard: its rejections count, and an error keeps the job waiting unless the extender is
// ignorable.
func TestTheFirstThatDoesNotAgreeIsHeard(t *testing.T) {
	broken := serve(t, func(string, string) (int, string) { return http.StatusInternalServerError, "" })
	first, second := says(t, map[string]string{"preempt": onlyB}), says(t, map[string]string{"preempt": `{}`})
	members := func() ([]*model.Task, []*model.Task) { return []*model.Task{task("m1")}, []*model.Task{task("m2")} }
	onA, onB := members()
	options := []Options{preempts(broken), preempts(first), preempts(second)}
	want := "extender " + broken.prefix() + ": preempt: it answers 500 Internal Server Error expires=true"
	if got := review(t, options, onA, onB); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	options[0].Ignorable = true
	if got := review(t, options, onA, onB); got != "a: by extender "+first.prefix() {
		t.Errorf("got %s", got)
	}
	if n := len(second.taken()); n != 0 {
		t.Errorf("the second was asked %d times about a plan that is none", n)
	}
}

// TestANodeWithATerminatingPod passes the filter of an extender that also processes preemption, if it was refused for now; not
// where another one, which does not, was not called for it.
func TestANodeWithATerminatingPod(t *testing.T) {
	for _, c := range []struct {
		name, preempt, second string
		stuck                 bool
		want                  string
	}{
		{"for now", "preempt", "", false, "a"},
		{"but is stuck", "preempt", "", true, ""},
		{"no say in victims", "", "", false, ""},
		{"another one behind it", "preempt", "filter", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := says(t, map[string]string{"filter": `{"FailedNodes":{"a":"busy","b":"busy"},"FailedAndUnresolvableNodes":{"c":"old"}}`})
			options := preempts(s)
			options.FilterVerb, options.PreemptVerb = "filter", c.preempt
			other := Options{URLPrefix: s.URL + "/ext/other", FilterVerb: c.second, PreemptVerb: "p"}
			if c.second != "" {
				other.PreemptVerb = ""
			}
			snapshot := cluster("a", "b", "c")
			for i, status := range []model.Status{model.Releasing, model.Running, model.Releasing} {
				pod := task(fmt.Sprint("v", i))
				pod.Status, pod.TerminationOverdue = status, c.stuck
				snapshot.Nodes[i].Tasks = []*model.Task{pod}
			}
			session := engine.Open(snapshot, profile(t, []Options{options, other}), engine.Options{})
			defer session.Close()
			name := ""
			for _, node := range session.Ask(session.Snapshot.Job(task("m").Job), model.FutureIdle).All(task("m")) {
				name += node.Name
			}
			if name != c.want {
				t.Errorf("on future capacity %q pass, want %q", name, c.want)
			}
			if nodes := session.Ask(session.Snapshot.Job(task("m").Job), model.Idle).All(task("m")); len(nodes) > 0 {
				t.Errorf("on idle capacity %d nodes pass", len(nodes))
			}
			if !session.HasTransientRefusal(task("m")) {
				t.Error("what the extender says holds indefinitely")
			}
		})
	}
}
