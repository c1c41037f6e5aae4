package configuration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	withGang    = "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"
	withoutGang = "actions: \"allocate, backfill\"\ntiers:\n- plugins:\n  - name: predicates\n"
	broken      = "actions: \"alocate\"\ntiers:\n- plugins:\n  - name: gnag\n  - name: predicates\n"
)

// stand is a Watcher on a ConfigMap or a file, and the test in place of the loop.
type stand struct {
	t      *testing.T
	live   *Watcher
	client *fake.Clientset
	// swaps are the profiles that the loop has received, written the events.
	swaps   chan func() *engine.Profile
	written chan *eventsv1.Event
	adopted []*engine.Profile
	metrics *prometheus.Registry
	version int
}

func newStand(t *testing.T, source Source, timer clock.WithTicker, catalogue *engine.Registry, objects ...*corev1.ConfigMap) *stand {
	t.Helper()
	s := &stand{
		t: t, client: fake.NewClientset(), swaps: make(chan func() *engine.Profile, 10), written: make(chan *eventsv1.Event, 10),
		metrics: prometheus.NewRegistry(),
	}
	for _, object := range objects {
		s.write("create", object)
	}
	s.client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		event, ok := action.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
		if ok {
			s.written <- event
		}
		return false, nil, nil
	})
	live, err := New(source, Options{
		Catalogue: catalogue, Clock: timer, Client: s.client, Controller: "tutti", Instance: "tutti-0", Registry: s.metrics,
		Handover: func(make func() *engine.Profile) { s.swaps <- make },
		OnActive: func(profile *engine.Profile) { s.adopted = append(s.adopted, profile) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.live = live
	return s
}

// run runs the Watcher until the test ends.
func (s *stand) run() {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.live.Run(ctx); err != nil {
			s.t.Error(err)
		}
	}()
	s.t.Cleanup(func() { cancel(); <-ended })
}

func configMap(text string) *corev1.ConfigMap {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tutti-system", Name: "tutti-scheduler", UID: "u"}}
	if text != "" {
		object.Data = map[string]string{DefaultKey: text}
	}
	return object
}

// write changes a ConfigMap, which gets the next version.
func (s *stand) write(verb string, object *corev1.ConfigMap) {
	s.t.Helper()
	s.version++
	object.ResourceVersion = fmt.Sprint(s.version)
	configMaps := s.client.CoreV1().ConfigMaps(object.Namespace)
	var err error
	switch verb {
	case "create":
		_, err = configMaps.Create(s.t.Context(), object, metav1.CreateOptions{})
	case "update":
		_, err = configMaps.Update(s.t.Context(), object, metav1.UpdateOptions{})
	default:
		err = configMaps.Delete(s.t.Context(), object.Name, metav1.DeleteOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// next is the loop between two cycles: it takes the next version, and returns the resulting profile.
func (s *stand) next() *engine.Profile {
	s.t.Helper()
	return (<-s.swaps)()
}

// wants fails unless that text of that version is active, and the newest was refused with that message; empty if not refused.
func (s *stand) wants(text, resourceVersion, refused string) {
	s.t.Helper()
	report := s.live.Report()
	if report.Active.Text != text || report.Active.ResourceVersion != resourceVersion || report.Since.IsZero() {
		s.t.Errorf("active is %+v since %s, want version %s of\n%s", report.Active, report.Since, resourceVersion, text)
	}
	got, failing := "", 0.0
	if report.Refused != nil {
		got, failing = strings.Join(report.Refused.Problems, "\n"), 1
	}
	if got != refused {
		s.t.Errorf("refused with\n%s\nwant\n%s", got, refused)
	}
	metrics := gathered(s.t, s.metrics)
	for _, want := range []string{
		fmt.Sprintf("tutti_configuration_refused{} %g\n", failing),
		fmt.Sprintf("hash=%q resource_version=%q source=%q} 1\n", report.Active.Hash, resourceVersion, report.Active.Source),
	} {
		if !strings.Contains(metrics, want) || strings.Count(metrics, "tutti_configuration_info") != 1 {
			s.t.Errorf("no %s in\n%s", want, metrics)
		}
	}
}

const inTheMap = "tutti-system/tutti-scheduler/scheduler.yaml"

func TestLiveFollowsTheConfigMap(t *testing.T) {
	source, err := ParseConfigMap("tutti-system/tutti-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	s := newStand(t, source, clock.RealClock{}, offline(t), configMap(withGang))
	if profile, err := s.live.Start(t.Context()); err != nil || len(profile.Actions) != 1 {
		t.Fatalf("the first profile: %v, %v", profile, err)
	}
	s.wants(withGang, "1", "")
	s.run()
	if profile := s.next(); profile != nil { // the informer's first version
		t.Error("the version that is active is swapped for itself")
	}

	s.write("update", configMap(withoutGang))
	s.wants(withGang, "1", "") // until the loop takes it
	profile := s.next()
	if profile == nil || len(profile.Actions) != 2 || len(s.adopted) != 1 || s.adopted[0] != profile {
		t.Fatalf("the second profile is %v, adopted are %v", profile, s.adopted)
	}
	s.wants(withoutGang, "2", "")
	inUse := "the version with the hash " + s.live.Report().Active.Hash + " is in use"
	s.wantsEvent("2", corev1.EventTypeNormal, EventReasonActive, inUse)

	s.write("update", configMap(broken))
	if s.next() != nil {
		t.Error("a broken version has a profile")
	}
	problems := inTheMap + ":1: unknown action \"alocate\"; did you mean \"allocate\"?\n" +
		inTheMap + ":4: unknown plugin \"gnag\"; did you mean \"gang\"?"
	s.wants(withoutGang, "2", problems)
	s.wantsEvent("3", corev1.EventTypeWarning, EventReason, strings.ReplaceAll(problems, "\n", "; ")+" (the version with the hash "+s.live.Report().Active.Hash+" is kept)")

	again := configMap(broken) // another key of the object has changed
	again.Labels = map[string]string{"a": "b"}
	s.write("update", again)
	if s.next() != nil {
		t.Error("a broken version has a profile")
	}
	s.wants(withoutGang, "2", problems)

	s.write("update", configMap("")) // without the key, which is another reason
	if s.next() != nil {
		t.Error("no text has a profile")
	}
	missing := "tutti-system/tutti-scheduler: the ConfigMap has no key scheduler.yaml; its keys: none"
	s.wants(withoutGang, "2", missing)
	s.wantsEvent("5", corev1.EventTypeWarning, EventReason, missing+" (the version with the hash "+s.live.Report().Active.Hash+" is kept)")

	again = configMap("")
	again.Labels = map[string]string{"a": "b"}
	s.write("update", again)
	if s.next() != nil {
		t.Error("no text has a profile")
	}
	s.wants(withoutGang, "2", missing)

	s.write("delete", configMap(""))
	if s.next() != nil {
		t.Error("nothing has a profile")
	}
	s.wants(withoutGang, "2", "tutti-system/tutti-scheduler: the ConfigMap does not exist")

	s.write("create", configMap(withoutGang)) // as it was
	if s.next() != nil {
		t.Error("the version that is active is swapped for itself")
	}
	s.wants(withoutGang, "8", "")
	s.wantsEvent("8", corev1.EventTypeNormal, EventReasonActive, inUse)
	if text := `outcome="refused"} 3`; !strings.Contains(gathered(t, s.metrics), text) {
		t.Errorf("no %s in\n%s", text, gathered(t, s.metrics))
	}
	select {
	case event := <-s.written:
		t.Errorf("one event too many: %+v", event)
	default:
	}
}

// wantsEvent waits for the event about a version.
func (s *stand) wantsEvent(resourceVersion, kind, reason, note string) {
	s.t.Helper()
	event := <-s.written
	about := event.Regarding
	if about.Kind != "ConfigMap" || about.Name != "tutti-scheduler" || about.UID != "u" || about.ResourceVersion != resourceVersion ||
		event.Type != kind || event.Reason != reason || event.Note != note || event.Namespace != "tutti-system" {
		s.t.Errorf("event %+v, want %s about version %s with the note\n%s", event, reason, resourceVersion, note)
	}
}

func gathered(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, family := range families {
		for _, metric := range family.Metric {
			var labels []string
			for _, label := range metric.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", *label.Name, *label.Value))
			}
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			fmt.Fprintf(&b, "%s{%s} %g\n", *family.Name, strings.Join(labels, " "), value)
		}
	}
	return b.String()
}

// TestReplicasTellOnce: two of them give the event about a version the same name, and a long one is cut.
func TestReplicasTellOnce(t *testing.T) {
	var events []*eventsv1.Event
	for _, instance := range []string{"a", "b"} {
		teller := newTeller(Options{Clock: clock.RealClock{}, Instance: instance})
		source := Source{Namespace: "n", Name: strings.Repeat("x", 229) + ".y", Key: "k"}
		object := configMap(withGang)
		object.Name = source.Name
		teller.refused(source.inside(object), Version{Hash: "123"}, []string{strings.Repeat("ü", 2000)})
		events = append(events, <-teller.pending)
	}
	if a, b := events[0], events[1]; a.Name != b.Name || len(a.Name) > 253 || strings.Contains(a.Name, "..") {
		t.Errorf("names %q and %q", a.Name, b.Name)
	}
	if note := events[0].Note; len(note) > longestNote || !strings.HasSuffix(note, "ü... (the version with the hash 123 is kept)") {
		t.Errorf("%d bytes: %q", len(note), note)
	}
}

func TestTheFirstVersionMustBeGood(t *testing.T) {
	catalogue := offline(t)
	source := Source{Namespace: "tutti-system", Name: "tutti-scheduler", Key: DefaultKey}
	for name, c := range map[string]struct {
		objects []*corev1.ConfigMap
		want    []string
	}{
		"broken":  {[]*corev1.ConfigMap{configMap(broken)}, []string{inTheMap + ":1: unknown action", inTheMap + ":4: unknown plugin"}},
		"missing": {nil, []string{"tutti-system/tutti-scheduler: the ConfigMap does not exist"}},
		"no key":  {[]*corev1.ConfigMap{configMap("")}, []string{"no key scheduler.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, source, clock.RealClock{}, catalogue, c.objects...)
			_, err := s.live.Start(t.Context())
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q in it", err, want)
				}
			}
		})
	}
}

// TestTheLastGoodVersionSurvivesARestart: it is kept in a ConfigMap of its own, and a process that starts while the present
// version is refused, or gone, runs with it and says so.
func TestTheLastGoodVersionSurvivesARestart(t *testing.T) {
	catalogue := offline(t)
	source := Source{Namespace: "tutti-system", Name: "tutti-scheduler", Key: DefaultKey}
	good := func(text string) *corev1.ConfigMap {
		object := configMap(text)
		object.Name, object.UID = "tutti-scheduler-last-good", "v"
		return object
	}
	first := newStand(t, source, clock.RealClock{}, catalogue, configMap(withGang), good(""))
	if _, err := first.live.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.run()
	stored := func() string {
		object, err := first.client.CoreV1().ConfigMaps("tutti-system").Get(t.Context(), "tutti-scheduler-last-good", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return object.Data[DefaultKey]
	}
	for stored() != withGang {
		<-time.NewTimer(time.Millisecond).C
	}
	for name, present := range map[string][]*corev1.ConfigMap{"refused": {configMap(broken)}, "without its key": {configMap("")}, "gone": nil} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, source, clock.RealClock{}, catalogue, append(present, good(withGang))...)
			profile, err := s.live.Start(t.Context())
			if err != nil || len(profile.Actions) != 1 {
				t.Fatalf("profile %v: %v", profile, err)
			}
			report := s.live.Report()
			if !report.LastGood || report.Refused == nil || report.Active.Text != withGang ||
				report.Active.Source != "ConfigMap tutti-system/tutti-scheduler-last-good, key scheduler.yaml" {
				t.Errorf("report %+v", report)
			}
			if text := gathered(t, s.metrics); !strings.Contains(text, "tutti_configuration_last_good{} 1\n") || !strings.Contains(text, "tutti_configuration_refused{} 1\n") {
				t.Errorf("measured\n%s", text)
			}
			if name != "refused" {
				return
			}
			s.run()
			s.wantsEvent("1", corev1.EventTypeWarning, EventReason, strings.Join(report.Refused.Problems, "; ")+" (the version with the hash "+report.Active.Hash+" is kept)")
			if s.next() != nil { // the informer's first version, refused already
				t.Error("a broken version has a profile")
			}
			s.write("update", configMap(withoutGang))
			if s.next() == nil || s.live.Report().LastGood || s.live.Report().Refused != nil {
				t.Errorf("report %+v", s.live.Report())
			}
		})
	}
}

// TestOnlyTheLeaderKeepsTheLastGoodVersion.
func TestOnlyTheLeaderKeepsTheLastGoodVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c-last-good"}})
		var leads atomic.Bool
		k := newKeeper(Source{Namespace: "n", Name: "c", Key: "k"}.lastGood(), Options{
			Client: client, Clock: clock.RealClock{}, MayWrite: leads.Load,
		})
		ctx, cancel := context.WithCancel(t.Context())
		go k.run(ctx, logr.Discard())
		k.keep(withGang)
		<-time.NewTimer(10 * keepPeriod).C
		if n := len(client.Actions()); n != 0 {
			t.Errorf("a standby has made %d requests", n)
		}
		leads.Store(true)
		<-time.NewTimer(10 * keepPeriod).C
		k.keep(withGang) // the same again
		<-time.NewTimer(10 * keepPeriod).C
		var verbs []string
		for _, action := range client.Actions() {
			verbs = append(verbs, action.GetVerb())
		}
		if got := strings.Join(verbs, " "); got != "get patch get" {
			t.Errorf("the leader has made the requests %s", got)
		}
		cancel()
	})
}

// TestTheLastGoodVersionIsKeptOnceItMayBe: a right or an object that is missing is looked for each minute, and is logged once.
func TestTheLastGoodVersionIsKeptOnceItMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		k := newKeeper(Source{Namespace: "n", Name: "c", Key: "k"}.lastGood(), Options{
			Client: client, Clock: clock.RealClock{}, MayWrite: func() bool { return true },
		})
		ctx, cancel := context.WithCancel(t.Context())
		said := 0
		go k.run(ctx, funcr.New(func(string, string) { said++ }, funcr.Options{}))
		k.keep(withGang)
		<-time.NewTimer(10 * time.Minute).C
		if n := len(client.Actions()); n < 9 || n > 11 || said != 1 {
			t.Errorf("%d requests and %d lines in ten minutes, want one request each minute and one line", n, said)
		}
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c-last-good"}}
		if _, err := client.CoreV1().ConfigMaps("n").Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.NewTimer(2 * time.Minute).C
		if got, err := client.CoreV1().ConfigMaps("n").Get(ctx, "c-last-good", metav1.GetOptions{}); err != nil || got.Data["k"] != withGang {
			t.Errorf("kept: %v, %v", got.Data, err)
		}
		cancel()
	})
}

func TestParseConfigMap(t *testing.T) {
	for text, want := range map[string]Source{
		"a/b": {Namespace: "a", Name: "b", Key: "scheduler.yaml"}, "a/b/c": {Namespace: "a", Name: "b", Key: "c"},
		"": {}, "a": {}, "a/": {}, "/b": {}, "a/b/": {}, "a/b/c/d": {},
	} {
		if got, err := ParseConfigMap(text); got != want || (err == nil) != (want != Source{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// TestLiveFollowsTheFile: its content counts when it was read twice; a deleted file is refused once, and may come back.
func TestLiveFollowsTheFile(t *testing.T) {
	catalogue := offline(t)
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(withGang)
	s := newStand(t, Source{File: file}, clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), catalogue)
	if _, err := s.live.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s.swaps, s.live.options.Clock = make(chan func() *engine.Profile, 10), clock.RealClock{}
		s.live.options.Handover = func(make func() *engine.Profile) { s.swaps <- make }
		ctx, cancel := context.WithCancel(t.Context())
		go s.live.poll(ctx)
		looks := func(n int) (offered int) {
			<-time.NewTimer(time.Duration(n)*lookEvery + time.Millisecond).C
			synctest.Wait()
			for len(s.swaps) > 0 {
				(<-s.swaps)()
				offered++
			}
			return offered
		}
		if n := looks(3); n != 0 {
			t.Errorf("an unchanged file is offered %d times", n)
		}
		write(withoutGang[:20]) // half of it
		if n := looks(1); n != 0 {
			t.Errorf("a file that is being written is offered %d times", n)
		}
		write(withoutGang)
		if n := looks(4); n != 1 {
			t.Errorf("a new version is offered %d times", n)
		}
		s.wants(withoutGang, "", "")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if n := looks(4); n != 1 {
			t.Errorf("that the file is gone is reported %d times", n)
		}
		s.wants(withoutGang, "", "configuration: open "+file+": no such file or directory")
		write(withoutGang)
		if n := looks(4); n != 1 {
			t.Errorf("that the file is back is reported %d times", n)
		}
		s.wants(withoutGang, "", "")
		cancel()
	})
}

// TestSpreadByDefaultNeedsARestart: an argument that needs informers the process did not start with is refused with its line;
// if they were started, it may be turned off and on.
func TestSpreadByDefaultNeedsARestart(t *testing.T) {
	spread := withGang + "  - name: nodeorder\n    arguments:\n      podtopologyspread.defaulting: system\n"
	for _, fromTheStart := range []bool{false, true} {
		client := fake.NewClientset()
		kubePlugins, err := kube.New(t.Context(), kube.Deps{
			Lister:    cluster.New(cluster.Options{Dimensions: model.NewDimensions()}).View(),
			Informers: informers.NewSharedInformerFactory(client, 0), Client: client,
		})
		if err != nil {
			t.Fatal(err)
		}
		catalogue := Catalogue(kubePlugins)
		if fromTheStart {
			if _, _, err := catalogue.Read("f", []byte(spread)); err != nil {
				t.Fatal(err)
			}
		}
		kubePlugins.Freeze()
		_, _, err = catalogue.Read("f", []byte(spread))
		switch {
		case fromTheStart && err != nil:
			t.Error(err)
		case !fromTheStart && (err == nil || !strings.Contains(err.Error(), "f:8: plugin nodeorder: argument podtopologyspread.defaulting") ||
			!strings.Contains(err.Error(), "needs a restart")):
			t.Errorf("error %v, want one on line 8 that says that it needs a restart", err)
		}
	}
}

// TestAPanicWhileReadingCostsTheVersion: the version is refused, the scheduler goes on.
func TestAPanicWhileReadingCostsTheVersion(t *testing.T) {
	catalogue := offline(t)
	source := Source{Namespace: "tutti-system", Name: "tutti-scheduler", Key: DefaultKey}
	s := newStand(t, source, clock.RealClock{}, catalogue, configMap(withGang))
	if _, err := s.live.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.live.options.Catalogue = nil
	f := source.inside(configMap(withoutGang))
	if s.live.apply(f) != nil || s.live.Report().Refused == nil || !strings.Contains(s.live.Report().Refused.Problems[0], "panic") {
		t.Errorf("report %+v", s.live.Report())
	}
}
