package extender

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

const allPass = `{"NodeNames":["a","b","c"]}`

// all is an extender with all verbs, by names.
func all(s *server) Options {
	return Options{
		URLPrefix: s.prefix(), FilterVerb: "filter", PrioritizeVerb: "prioritize", BindVerb: "bind", Weight: 2, NodeCacheCapable: true,
	}
}

func TestWhatGoesOverTheWire(t *testing.T) {
	const pod = `{"metadata":{"name":"p","namespace":"ns","uid":"uid-p"},` +
		`"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"1"}}}]},"status":{}}`
	node := func(name string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},` +
			`"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"",` +
			`"kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}`
	}
	for _, c := range []struct {
		name            string
		capable         bool
		filtered        string
		filter, between string
	}{
		{
			"names", true, `{"NodeNames":["a"],"FailedNodes":{"c":"no"}}`,
			`filter {"Pod":` + pod + `,"Nodes":null,"NodeNames":["a","c"]}`,
			`prioritize {"Pod":` + pod + `,"Nodes":null,"NodeNames":["a"]}`,
		}, {
			"objects", false, `{"Nodes":{"items":[{"metadata":{"name":"c"}}]}}`,
			`filter {"Pod":` + pod + `,"Nodes":{"metadata":{},"items":[` + node("a") + `,` + node("c") + `]},"NodeNames":null}`,
			`prioritize {"Pod":` + pod + `,"Nodes":{"metadata":{},"items":[` + node("c") + `]},"NodeNames":null}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := says(t, map[string]string{"filter": c.filtered, "prioritize": `[]`, "bind": `{}`})
			options := all(s)
			options.NodeCacheCapable = c.capable
			p := profile(t, []Options{options}, barred{"b"})
			choose(p, cluster("a", "b", "c"), task("p"))
			binder := p.PodBinders()[0]
			if refusal, err := binder.BindPod(t.Context(), task("p").PodRef, "a"); refusal != nil || err != nil {
				t.Errorf("bind: %v, %v", refusal, err)
			}
			want := []string{c.filter, c.between, `bind {"PodName":"p","PodNamespace":"ns","PodUID":"uid-p","Node":"a"}`}
			if diff := cmp.Diff(want, s.taken()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilterAnswers(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		name, answer string
		want         string
	}{
		{"all pass", allPass, "a"},
		{"the last is left", `{"NodeNames":["c"]}`, "c"},
		{"objects are good, too", `{"Nodes":{"items":[{"metadata":{"name":"b"}}]}}`, "b"},
		{"in both lists", `{"NodeNames":["b"],"FailedNodes":{"b":"no"}}`, "b"},
		{
			"reasons, evictable", `{"FailedNodes":{"a":"busy","b":"busy","c":"broken"},"FailedAndUnresolvableNodes":{"c":"old"}}`,
			"2 nodes: extender URL: busy, 1 node: extender URL: old evictable=true expires=true",
		},
		{"eviction does not help", `{"FailedAndUnresolvableNodes":{"a":"old","b":"old","c":"old"}}`,
			"3 nodes: extender URL: old evictable=false expires=true"},
		{"no reasons", `{}`, "3 nodes: extender URL: refused evictable=false expires=true"},
		{"a reason of nothing", `{"FailedNodes":{"a":"","b":"\n","c":"\u0007"}}`,
			"3 nodes: extender URL: refused evictable=true expires=true"},
		{"a reason too long", `{"FailedNodes":{"a":"` + long + `","b":"` + long + `","c":"` + long + `"}}`,
			"3 nodes: extender URL: " + long[:200] + "... evictable=true expires=true"},
		{"an error", `{"Error":"no\nidea","NodeNames":["a"]}`,
			"3 nodes: extender URL: filter: no idea evictable=false expires=true"},
		{"a node that was not asked about", `{"NodeNames":["a","z"]}`,
			"3 nodes: extender URL: filter: it lets node z pass, about which it was not asked evictable=false expires=true"},
		{"no JSON", `<html>`,
			"3 nodes: extender URL: filter: invalid character '<' looking for beginning of value evictable=false expires=true"},
		{"nothing", ``, "3 nodes: extender URL: filter: EOF evictable=false expires=true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := says(t, map[string]string{"filter": c.answer, "prioritize": `[]`})
			got := strings.ReplaceAll(choose(profile(t, []Options{all(s)}), cluster("a", "b", "c"), task("p")), s.prefix(), "URL")
			if got = strings.TrimPrefix(got, "; "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestReasonsAreFewWhateverIsAnswered(t *testing.T) {
	var names, reasons []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("n%03d", i))
		reasons = append(reasons, fmt.Sprintf(`"n%03d":"node n%03d is full"`, i, i))
	}
	s := says(t, map[string]string{"filter": `{"FailedNodes":{` + strings.Join(reasons, ",") + `}}`})
	session := engine.Open(cluster(names...), profile(t, []Options{all(s)}), engine.Options{})
	_, tally := session.Ask(session.Snapshot.Job(task("p").Job), model.Idle).BestOrWhy(task("p"), nil)
	causes := tally.Causes()
	if len(causes) != mostReasons+1 || causes[0].Nodes != 100-mostReasons || !strings.HasSuffix(causes[0].Detail, "one of many reasons") {
		t.Errorf("causes: %v", causes)
	}
}

func TestExtendersOneAfterAnother(t *testing.T) {
	first := says(t, map[string]string{"filter": `{"NodeNames":["b","c"],"FailedNodes":{"a":"first"}}`})
	second := says(t, map[string]string{"filter": `{"NodeNames":[],"FailedNodes":{"b":"second","c":"second"}}`})
	third := says(t, map[string]string{"filter": allPass})
	p := profile(t, []Options{all(first), all(second), all(third)})
	got := choose(p, cluster("a", "b", "c"), task("p"))
	want := fmt.Sprintf("; 2 nodes: extender %s: second, 1 node: extender %s: first evictable=true expires=true", second.prefix(), first.prefix())
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if calls := second.taken(); len(calls) != 1 || !strings.HasSuffix(calls[0], `"NodeNames":["b","c"]}`) {
		t.Errorf("the second was asked %v", calls)
	}
	if calls := third.taken(); len(calls) > 0 {
		t.Errorf("the third was asked about nothing: %v", calls)
	}
}

func TestAnIgnorableErrorKeepsNoPodWaiting(t *testing.T) {
	for _, c := range []struct {
		name      string
		ignorable bool
		verb      string
		want      string
	}{
		{"filter", false, "filter", "; 3 nodes: extender URL: filter: it answers 500 Internal Server Error evictable=false expires=true"},
		{"filter, ignorable", true, "filter", "b"},
		{"prioritize", false, "prioritize", "a"},
		{"prioritize, ignorable", true, "prioritize", "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(verb, _ string) (int, string) {
				if verb == c.verb {
					return http.StatusInternalServerError, allPass
				}
				return http.StatusOK, map[string]string{"filter": allPass, "prioritize": `[{"Host":"b","Score":1}]`}[verb]
			})
			options := all(s)
			options.Ignorable = c.ignorable
			p := profile(t, []Options{options})
			for range 2 { // it is called again in the next cycle
				got := strings.ReplaceAll(choose(p, cluster("a", "b", "c"), task("p")), s.prefix(), "URL")
				if got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			}
			if n := s.count(c.verb); n != 2 {
				t.Errorf("%d calls in two sessions, want 2", n)
			}
		})
	}
}

func TestScoresCountLikeKubeSchedulers(t *testing.T) {
	// The other plugin prefers c by 95 points, which 4 × 10 × weight 2 do not outweigh, 5 × 10 × 2 do.
	for _, c := range []struct{ answer, want string }{
		{`[{"Host":"b","Score":4}]`, "c"},
		{`[{"Host":"b","Score":5}]`, "b"},
		{`[{"Host":"b","Score":2},{"Host":"b","Score":3}]`, "b"},
		{`[{"Host":"c","Score":1},{"Host":"b","Score":5}]`, "c"},
		{`[{"Host":"z","Score":10}]`, "c"},
		{`[{"Host":"c","Score":-9223372036854775808},{"Host":"b","Score":-9223372036854775807}]`, "a"},
		{`[{"Host":"a","Score":9223372036854775807},{"Host":"a","Score":9223372036854775807}]`, "a"},
	} {
		s := says(t, map[string]string{"filter": allPass, "prioritize": c.answer})
		if got := choose(profile(t, []Options{all(s)}, prefers("c")), cluster("a", "b", "c"), task("p")); got != c.want {
			t.Errorf("%s: got %s, want %s", c.answer, got, c.want)
		}
	}
}

// prefers is a plugin that prefers one node.
type prefers string

func (prefers) Name() string { return "prefers" }

func (p prefers) PreScore(_ *model.Task, scope framework.FilterScope, _ []*model.Node) []framework.NodeScore {
	if scope != framework.NodeOnly {
		return nil
	}
	return []framework.NodeScore{{Name: "prefers", Weight: 1, Score: func(node *model.Node) int64 {
		if node.Name == string(p) {
			return 95
		}
		return 0
	}}}
}

func TestAskedOncePerKindAndCycle(t *testing.T) {
	s := says(t, map[string]string{"filter": `{"NodeNames":["b","c"],"FailedNodes":{"a":"no"}}`, "prioritize": `[{"Host":"c","Score":1}]`})
	options := all(s)
	options.DistinguishBy = []string{"example.com/model"}
	p := profile(t, []Options{options})
	snapshot := cluster("a", "b", "c")
	placed := func(tasks ...*model.Task) map[string]int {
		session := engine.Open(snapshot, p, engine.Options{})
		defer session.Close()
		nodes := map[string]int{}
		session.Try(func(statement *engine.Statement) *model.Refusal {
			for _, task := range tasks {
				nodes[chosen(session, task)]++
				if node := snapshot.Node(chosen(session, task)); node != nil {
					statement.Put(session.Ask(session.Snapshot.Job(task.Job), model.Idle), task, node)
				}
			}
			return &model.Refusal{}
		})
		return nodes
	}
	var gang []*model.Task
	for i := range 8 {
		gang = append(gang, task(fmt.Sprintf("p%d", i)))
	}
	if got := placed(gang...); got["c"] != 4 || got["b"] != 4 {
		t.Errorf("placed %v, want four on c and then four on b", got)
	}
	if calls := s.taken(); len(calls) != 2 {
		t.Errorf("%d calls for eight pods of a kind, want one per verb: %v", len(calls), calls)
	}
	placed(gang...)
	if n := s.count("filter"); n != 1 {
		t.Errorf("%d filter calls in the next cycle, want 1: an answer is not kept", n)
	}
	labelled, annotated, elsewhere, limited, other := task("l"), task("an"), task("e"), task("li"), task("o")
	labelled.Pod.Labels = map[string]string{"example.com/model": "x"}
	annotated.Pod.Annotations = map[string]string{"example.com/model": "x"}
	elsewhere.Namespace = "elsewhere"
	limited.Pod.Spec.Containers[0].Resources.Limits = limited.Pod.Spec.Containers[0].Resources.Requests
	other.Pod.Annotations = map[string]string{"example.com/other": "x"}
	placed(task("p"), labelled, annotated, elsewhere, limited, other, task("q", "example.com/share", "2"))
	if n := s.count("filter"); n != 6 {
		t.Errorf("%d filter calls about six kinds", n)
	}
}

func TestManagedResources(t *testing.T) {
	s := says(t, map[string]string{"filter": `{}`})
	options := all(s)
	options.ManagedResources = []ManagedResource{{"example.com/share", true}, {"example.com/nic", false}}
	p := profile(t, []Options{options})
	if got := choose(p, cluster("a"), task("p")); got != "a" {
		t.Errorf("a pod that wants none of it: %s", got)
	}
	if got := len(s.taken()); got != 0 {
		t.Errorf("%d calls about a pod that wants none of it", got)
	}
	inside := task("i")
	inside.Pod.Spec.InitContainers = task("x", "example.com/nic", "1").Pod.Spec.Containers
	limited := task("l")
	limited.Pod.Spec.Containers[0].Resources.Limits = task("x", "example.com/share", "1").Pod.Spec.Containers[0].Resources.Requests
	for _, task := range []*model.Task{task("s", "example.com/share", "2"), inside, limited} {
		if got := choose(p, cluster("a"), task); !strings.Contains(got, "refused") {
			t.Errorf("pod %s: %s", task.Name, got)
		}
		if n := s.count("filter"); n != 1 {
			t.Errorf("pod %s: %d calls, want 1", task.Name, n)
		}
	}
	dimensions := model.NewDimensions()
	share, nic := dimensions.Index("example.com/share"), dimensions.Index("example.com/nic")
	request := model.Resources{1000, 0, 0, 1}
	request.Set(share, 2)
	request.Set(nic, 1)
	for _, translator := range p.Translators() {
		if refusal := translator.TranslateRequest(dimensions, inside, &request); refusal != nil {
			t.Error(refusal)
		}
	}
	if request.At(share) != 0 || request.At(nic) != 1 || request.At(model.CPU) != 1000 {
		t.Errorf("request %v: only the share is the extender's to count", request)
	}
}

func TestBinder(t *testing.T) {
	s := says(t, map[string]string{"bind": `{"Error":"no capacity on\tn"}`})
	options := Options{URLPrefix: s.URL + "/ext/", BindVerb: "bind", ManagedResources: []ManagedResource{{"example.com/share", false}}}
	p := profile(t, []Options{{URLPrefix: "http://filters", FilterVerb: "f"}, options})
	binders := p.PodBinders()
	if len(binders) != 1 || binders[0].BinderName() != s.prefix() || binders[0].Ignorable() {
		t.Fatalf("binders %+v", binders)
	}
	refusal, err := binders[0].BindPod(t.Context(), task("p").PodRef, "n")
	if err != nil || refusal.String() != "no capacity on n" {
		t.Errorf("refusal %v, error %v", refusal, err)
	}
	asked := p.Tiers[0][0].Factory().(framework.Binder)
	if got := asked.BinderOf(task("p")); got != "" {
		t.Errorf("%q binds a pod that wants nothing the extender manages", got)
	}
	if got := asked.BinderOf(task("q", "example.com/share", "1")); got != s.prefix() {
		t.Errorf("%q binds, want %q", got, s.prefix())
	}
	s.Close()
	if refusal, err := binders[0].BindPod(t.Context(), task("p").PodRef, "n"); refusal != nil || err == nil {
		t.Errorf("no server: refusal %v, error %v", refusal, err)
	}
}

// An extender that has rejected no node has not affected the result, which need not be computed again; finding that out makes
// no call.
func TestWhoHadAPartIsAskedAgain(t *testing.T) {
	for answer, contained := range map[string]bool{
		allPass: true, `{"NodeNames":["a"],"FailedNodes":{"b":"busy","c":"busy"}}`: false, `{"Error":"no idea"}`: false,
	} {
		s := says(t, map[string]string{"filter": answer, "prioritize": `[]`})
		session := engine.Open(cluster("a", "b", "c"), profile(t, []Options{all(s)}), engine.Options{})
		p := task("p")
		if !session.Ask(session.Snapshot.Job(p.Job), model.Idle).Rests(p, engine.OnSnapshot) || len(s.taken()) > 0 {
			t.Error("asked, or taken to have had a part without that")
		}
		session.Ask(session.Snapshot.Job(p.Job), model.Idle).BestOrWhy(p, nil)
		if got := session.Ask(session.Snapshot.Job(p.Job), model.Idle).Rests(p, engine.OnSnapshot); got != contained {
			t.Errorf("%s: self-contained is %t", answer, got)
		}
	}
}
