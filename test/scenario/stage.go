package scenario

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/pkg/actions"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins"
)

// environment is one story's cluster and the scheduler over it.
type environment struct {
	world *world
	state *cluster.State
	// configuration is the text in force; objects are what kube-scheduler's plugins read besides pods and nodes.
	configuration []byte
	objects       []runtime.Object
	// extra are plugins beside the built-in ones.
	extra   []framework.PluginRegistration
	profile *engine.Profile
	// kube are kube-scheduler's plugins; open makes them when there are none.
	kube  plugins.Kube
	close func()
	// server is what the plugins read devices from; nil where several environments share the plugins, which have none.
	server *server
	// start starts the informers that a configuration has asked for, and waits for them.
	start func() error
	// view is what they read of nodes and pods; several environments may share it.
	view *lister
	// webhook is the story's extender; nil when it has none.
	webhook *webhook
	// reserved are the volumes and devices reserved for binds in flight.
	reserved reservations
	// cache is handed on from cycle to cycle, as the live loop does.
	cache engine.Cache

	// ending are the pods that are evicted for a job, nominated the nodes on which capacity is held, by pod UID; the watch has not
	// seen it yet. past is who was evicted for whom so far.
	ending    map[types.UID]bool
	graces    map[types.UID]time.Duration
	nominated map[types.UID]string
	past      map[evictionLoop]bool
	turns     int

	// spared are pods that the API server has refused to evict.
	spared map[types.UID]*model.Refusal
	// held is until when jobs are left alone.
	held map[model.JobKey]time.Time

	// coming are binds in flight, by pod UID, given what is written with them; the watch has not seen them yet.
	coming map[types.UID]string
	// prepares are the pods for which something was reserved that is written before they are bound.
	prepares map[types.UID]bool
	// started are the minima of the starts that were decided, until a restart.
	started map[model.JobKey]model.Minima
	given   map[types.UID]map[string]string
	cycles  int
	// refusals are those of the last cycle.
	refusals map[model.JobKey]*model.Refusal
}

// reservations is what carries decisions out, as far as volumes and devices go. Nothing is written: a pod that is confirmed
// keeps what was reserved.
type reservations interface {
	Confirm(pod types.UID)
	Release(ctx context.Context, pod types.UID) error
}

func newStage() *environment {
	s := &environment{
		state:         cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}}),
		configuration: slices.Concat(config.DefaultYAML(), []byte(topologies)), close: func() {}, start: func() error { return nil }, coming: map[types.UID]string{}, prepares: map[types.UID]bool{}, started: map[model.JobKey]model.Minima{},
		ending: map[types.UID]bool{}, graces: map[types.UID]time.Duration{}, nominated: map[types.UID]string{}, past: map[evictionLoop]bool{}, spared: map[types.UID]*model.Refusal{},
		held: map[model.JobKey]time.Time{}, given: map[types.UID]map[string]string{},
	}
	s.world = newWorld(func(event cluster.Event) { s.state.Apply(event) })
	return s
}

// open builds the profile, before the first cycle.
func (s *environment) open() error {
	if s.profile != nil {
		return nil
	}
	if err := s.openKube(); err != nil {
		return err
	}
	catalogue := engine.Registry{Actions: actions.BuiltIn(), Plugins: append(plugins.BuiltIn(s.kube), s.extra...)}
	text := s.configuration
	if s.webhook != nil {
		text = bytes.ReplaceAll(text, []byte(extenderURL), []byte(s.webhook.server.URL))
	}
	configuration, warnings, err := config.Decode("story", text, catalogue.Names())
	if err != nil {
		return err
	}
	if len(warnings) > 0 {
		return errors.New(warnings[0].String())
	}
	if s.profile, err = catalogue.Build(configuration); err != nil {
		return err
	}
	s.state.Configure(s.profile.Translators(), s.profile.MaxGrace(), s.profile.SourcesOff...)
	return s.start()
}

func (s *environment) openKube() error {
	if s.kube != nil {
		return nil
	}
	s.view = &lister{SharedLister: s.state.View()}
	server, err := openKube(s.view, s.state, s.objects)
	if err != nil {
		return err
	}
	server.revise = func() string {
		s.world.revision++
		return strconv.Itoa(s.world.revision)
	}
	s.server, s.kube, s.reserved, s.start, s.close = server, server.plugins, server.plugins, server.start, server.stop
	return nil
}

// focus makes the plugins read this environment's cluster.
func (s *environment) focus() { s.view.SharedLister = s.state.View() }

// outcome is what one cycle came to.
type outcome struct {
	decisions []model.Decision
	refusals  map[model.JobKey]*model.Refusal
	snapshot  *model.Snapshot
	// asked is what the story's extender was asked about victims.
	asked string
}

// cycle runs one session, assumes what it decides as the live loop does, and checks the outcome.
func (s *environment) cycle() (*outcome, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	if s.server != nil {
		if err := s.server.publish(s.world); err != nil {
			return nil, err
		}
	}
	o := s.session(engine.Options{Verify: true, Cache: &s.cache})
	o.asked = s.takeAsked()
	s.cycles++
	s.refusals = o.refusals
	if err := s.state.View().Check(); err != nil {
		return nil, err
	}
	if err := s.compareWithUncached(o); err != nil {
		return nil, err
	}
	return o, s.applyDecisions(o)
}

// compareWithUncached sees that a session which remembers nothing comes to the same. Since it goes back and forth over the same
// snapshot, what is remembered lives from one cycle to the next only where it is left out, which is every second time.
func (s *environment) compareWithUncached(o *outcome) error {
	if s.cycles%2 == 1 {
		return nil
	}
	for _, decision := range slices.Backward(o.decisions) {
		for _, bind := range slices.Backward(decision.Binds) {
			s.kube.Unreserve(bind.Pod.UID) // the other session sets the same aside
		}
	}
	said, afresh := o.describe(), s.session(engine.Options{Afresh: true}).describe()
	s.takeAsked()
	if said != afresh {
		return fmt.Errorf("what is remembered changes the answer:\n%s\ninstead of\n%s", said, afresh)
	}
	return nil
}

// session runs one session on what the state knows.
func (s *environment) session(options engine.Options) *outcome {
	o := &outcome{snapshot: s.state.Snapshot(s.world.now)}
	o.snapshot.EvictionBackoff, o.snapshot.JobBackoff = s.spared, map[model.JobKey]*model.Refusal{}
	for job, until := range s.held {
		if until.After(s.world.now) {
			o.snapshot.JobBackoff[job] = &model.Refusal{Code: model.BindFailed, Detail: "the API server has refused to bind it"}
		}
	}
	o.snapshot.Begun = s.begun(o.snapshot)
	options.Decide = func(decision model.Decision) { o.decisions = append(o.decisions, decision) }
	o.refusals = engine.Run(o.snapshot, s.profile, options).Refusals
	return o
}

// begun returns the starts that the story has seen, and those that a scheduler finds when it begins to lead.
func (s *environment) begun(snapshot *model.Snapshot) map[model.JobKey]model.Minima {
	gangs := lifecycle.New(0, backoff.NewDelays())
	gangs.Lead(snapshot, snapshot.Now)
	all := gangs.Begun()
	maps.Copy(all, s.started)
	return all
}

// applyDecisions takes what a cycle decided and checks the outcome.
func (s *environment) applyDecisions(o *outcome) error {
	for i, decision := range o.decisions {
		if err := s.take(decision); err != nil {
			return err
		}
		if err := s.judge(o, i); err != nil {
			return fmt.Errorf("%w:\n%s", err, o)
		}
		s.spend(decision)
	}
	if err := s.check(o); err != nil {
		return fmt.Errorf("%w:\n%s", err, o)
	}
	return nil
}

// take assumes a decision, and holds it to what can be known from outside the scheduler.
func (s *environment) take(decision model.Decision) error {
	for _, bind := range decision.Binds {
		pod := s.world.pods[key(bind.Pod.Namespace, bind.Pod.Name)]
		switch {
		case pod == nil || pod.UID != bind.Pod.UID:
			return fmt.Errorf("pod %s is bound, and is gone", bind.Pod)
		case pod.Spec.NodeName != "" || s.coming[pod.UID] != "":
			return fmt.Errorf("invariant I5: pod %s is bound twice", bind.Pod)
		case s.world.nodes[bind.Node] == nil:
			return fmt.Errorf("pod %s is bound to %q, which is no node", bind.Pod, bind.Node)
		}
		s.coming[pod.UID], s.prepares[pod.UID] = bind.Node, bind.NeedsPreBind
		if job := s.state.Job(decision.Job); job != nil && !job.Whole {
			s.started[decision.Job] = model.Minima{MinMember: job.MinMember, Requests: model.HeldBy(job.Tasks)}
		}
		s.given[pod.UID] = maps.Clone(bind.Place)
		if bind.Isolated != nil {
			if s.given[pod.UID] == nil {
				s.given[pod.UID] = map[string]string{}
			}
			maps.Copy(s.given[pod.UID], bind.Isolated.Annotations)
		}
	}
	if err := s.takeEvictions(decision); err != nil {
		return err
	}
	s.state.Assume(decision)
	if decision.Right() != "" {
		s.state.Reclaimed(decision.Evictions)
	}
	return nil
}

// confirm lets the watch see the binds, evictions and nominations in flight, in order of pods. The API server binds no pod that
// is being deleted.
func (s *environment) confirm() error {
	s.world.seeTaken()
	names := s.world.podNames(func(pod *corev1.Pod) bool { return s.coming[pod.UID] != "" && pod.DeletionTimestamp == nil })
	for _, name := range names {
		if pod := s.world.pods[name]; s.prepares[pod.UID] && s.server != nil && len(pod.Spec.Volumes) == 0 { // nothing binds volumes
			if err := s.server.prepare(s.world, pod); err != nil {
				return err
			}
		}
	}
	clear(s.prepares)
	err := s.world.changePods(names, func(pod *corev1.Pod) {
		pod.Spec.NodeName = s.coming[pod.UID]
		for name, value := range s.given[pod.UID] {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, name, value)
		}
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.world.now),
		}}
	})
	for pod := range s.coming {
		s.reserved.Confirm(pod)
	}
	clear(s.coming)
	clear(s.given)
	if err != nil {
		return err
	}
	if bytes.Contains(s.configuration, []byte("name: predicates")) { // else nothing allocates devices
		if err := s.world.checkDevices(); err != nil {
			return err
		}
	}
	s.writeGroups()
	s.writeQueues()
	return s.confirmEvictions()
}

// reject lets binds in flight fail, and their jobs be left alone for a while if that is said.
func (s *environment) reject(names []string, options map[string]string) error {
	hold, err := time.ParseDuration(cmp.Or(options["hold"], "0s"))
	if err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	for _, name := range names {
		pod := s.world.pods[name]
		if pod == nil || s.coming[pod.UID] == "" {
			return fmt.Errorf("no bind of %s is in flight", name)
		}
		delete(s.coming, pod.UID)
		delete(s.prepares, pod.UID)
		delete(s.given, pod.UID)
		s.held[s.jobOf(pod)] = s.world.now.Add(hold)
		if !s.state.Forget(pod.UID) {
			return fmt.Errorf("nothing was assumed of %s", name)
		}
		if err := s.reserved.Release(context.Background(), pod.UID); err != nil {
			return err
		}
	}
	return nil
}

// String writes the outcome as stories record it.
func (o *outcome) String() string {
	var b strings.Builder
	b.WriteString(o.asked)
	for _, decision := range o.decisions {
		writeDecision(&b, decision)
	}
	b.WriteString(o.waits())
	for _, node := range o.snapshot.Nodes {
		for _, task := range node.Tasks {
			if task.Status == model.Pipelined {
				fmt.Fprintf(&b, "pipelined: %s → %s\n", key(task.Namespace, task.Name), node.Name)
			}
		}
	}
	writeIdle(&b, o.snapshot)
	return b.String()
}

// describe writes what was decided and who waits, without the reasons: a job may inherit the one of another job.
func (o *outcome) describe() string {
	var b strings.Builder
	for _, decision := range o.decisions {
		writeDecision(&b, decision)
	}
	for _, key := range slices.SortedFunc(maps.Keys(o.refusals), model.JobKey.Compare) {
		fmt.Fprintf(&b, "wait: %s\n", jobName(key))
	}
	return b.String()
}

// waits writes who waits and why.
func (o *outcome) waits() string {
	var b strings.Builder
	for _, key := range slices.SortedFunc(maps.Keys(o.refusals), model.JobKey.Compare) {
		fmt.Fprintf(&b, "wait: %s %s: %s\n", jobName(key), o.refusals[key].Code, o.refusals[key])
	}
	return b.String()
}

func writeDecision(b *strings.Builder, decision model.Decision) {
	if len(decision.Binds) > 0 {
		fmt.Fprintf(b, "bind: %s (needs %d):", jobName(decision.Job), decision.MinBinds)
		for i, bind := range decision.Binds {
			comma := ","
			if i == 0 {
				comma = ""
			}
			fmt.Fprintf(b, "%s %s → %s", comma, key(bind.Pod.Namespace, bind.Pod.Name), bind.Node)
			if bind.Isolated != nil {
				fmt.Fprintf(b, " on %s", bind.Isolated.Assignment.CPUs)
			}
			if slice, ok := bind.Place[v1alpha1.AnnotationSlice]; ok {
				fmt.Fprintf(b, " in slice %s", slice)
			}
		}
		b.WriteByte('\n')
	}
	for _, eviction := range decision.Evictions {
		how := [...]string{"evict", "evict or delete", "delete"}[eviction.Method]
		fmt.Fprintf(b, "%s: %s for %s", how, key(eviction.Pod.Namespace, eviction.Pod.Name), jobName(decision.Job))
		if decision.Right() != "" {
			fmt.Fprintf(b, " by %s", decision.Right())
		}
		if within := time.Duration(eviction.GraceSeconds) * time.Second; within != defaultGrace {
			fmt.Fprintf(b, " within %s", within)
		}
		b.WriteByte('\n')
	}
	writeReservation(b, decision)
	for _, nomination := range decision.Nominations {
		pod := key(nomination.Pod.Namespace, nomination.Pod.Name)
		if nomination.Node == "" {
			fmt.Fprintf(b, "clear nomination: %s\n", pod)
			continue
		}
		fmt.Fprintf(b, "nominate: %s → %s\n", pod, nomination.Node)
	}
}
