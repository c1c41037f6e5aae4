package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file keeps what the objects of foreign sources say, and how far they can be read.

// Reading is how far the objects of a foreign source can be read.
type Reading int8

// The readings.
const (
	// NotRead: not yet, or the source is off.
	NotRead Reading = iota
	// IsRead: all of them were read, and are watched.
	IsRead
	// NotServed: the API server does not have the kind.
	NotServed
	// NotAllowed: the right to list and watch them is missing.
	NotAllowed
)

// String returns what it is, for logs.
func (r Reading) String() string {
	return [...]string{"not read", "read", "not served", "forbidden"}[r]
}

// foreign is what the objects of foreign sources say.
type foreign struct {
	specs    map[model.JobKey]*sources.Spec
	readings map[model.Source]Reading
	// children are the groups that name a parent, whether that is known or not.
	children map[model.JobKey]map[model.JobKey]bool
	// news are the groups with a status of ours whose objects have changed, or that have lost their last member, since it was taken.
	news map[model.JobKey]bool
	// awaited is, by job, the source of an object that the job lacks; told is what the follower was told of it last, sorted.
	awaited map[model.JobKey]model.Source
	told    []model.Source
	// await is Options.Await.
	await func(sources []model.Source)
}

// tellAwaited calls the function of the options when jobs lack objects of other sources than before.
func (f *foreign) tellAwaited() {
	if f.await == nil {
		return
	}
	sources := slices.Compact(slices.Sorted(maps.Values(f.awaited)))
	if !slices.Equal(sources, f.told) {
		f.told = sources
		f.await(sources)
	}
}

// set takes note of a foreign object; nil makes it gone.
func (f *foreign) set(key model.JobKey, spec *sources.Spec) {
	if before := f.specs[key]; before != nil {
		if parent, ok := before.Parent(); ok {
			dropFrom(f.children, parent, key)
		}
	}
	if spec == nil {
		delete(f.specs, key)
		return
	}
	f.specs[key] = spec
	if parent, ok := spec.Parent(); ok {
		addTo(f.children, parent, key, true)
	}
}

// ForeignSeen is a new version of an object of a foreign source, or its end.
type ForeignSeen struct {
	Spec *sources.Spec
	Gone bool
}

// GroupKey returns the key of the object.
func (e *ForeignSeen) GroupKey() model.JobKey { return e.Spec.Key() }

func (e *ForeignSeen) object() (string, metav1.Object, bool) {
	return e.Spec.Source.Kind(), e.Spec, e.Gone
}

// apply keeps what the object says. One that says the same changes no answer, and so does one without members.
func (e *ForeignSeen) apply(s *State, _ types.UID) (effect Effect) {
	spec := e.Spec
	key := spec.Key()
	before, wasNoGang := s.foreign.specs[key], s.foreign.isNoGang(key)
	if e.Gone {
		s.dropForeign(key)
	} else {
		s.foreign.set(key, spec)
	}
	same := !e.Gone && spec.Same(before)
	if !e.Gone && (!same || spec.Shown != before.Shown) {
		effect = s.newsOf(key)
	}
	if same {
		return effect
	}
	effect = effect.merge(s.readForeignAgain(key))
	if s.foreign.isNoGang(key) != wasNoGang {
		effect = effect.merge(s.readUncertainAgain(key))
	}
	for child := range s.foreign.children[key] { // whose late roles it may say
		effect = effect.merge(s.readForeignAgain(child))
	}
	for _, job := range s.jobsOf(key) {
		set, _ := sources.SetOf(job.Key)
		if named, ok := sources.ObjectOfPods(job); ok {
			set = named
		}
		if set == key {
			effect = effect.merge(s.readForeignAgain(job.Key))
		}
	}
	return effect
}

// jobsOf returns jobs among which are the groups of a LeaderWorkerSet: those whose names begin with its own.
func (s *State) jobsOf(set model.JobKey) []*model.Job {
	if set.Source != model.SourceLeaderWorkerSetObject {
		return nil
	}
	jobs, prefix := s.snapshot.Jobs, set.Name+"-"
	from, _ := slices.BinarySearchFunc(jobs, model.JobKey{Namespace: set.Namespace, Name: prefix}, func(job *model.Job, key model.JobKey) int {
		return job.Key.Compare(key)
	})
	to := from
	for to < len(jobs) && jobs[to].Key.Namespace == set.Namespace && strings.HasPrefix(jobs[to].Key.Name, prefix) {
		to++
	}
	return jobs[from:to]
}

// parentOf returns the key of the object that says which members of a job are made later, where another one says the rest; ok is
// false when there is none.
func (f *foreign) parentOf(job model.JobKey) (parent model.JobKey, ok bool) {
	if !job.IsForeign() {
		return sources.SetOf(job)
	}
	if spec := f.specs[job]; spec != nil {
		return spec.Parent()
	}
	return parent, false
}

// spec returns what the object of a group says, with the late roles of its parent; of a group whose pods say the rest what the
// parent says. It is nil when that is not known.
func (f *foreign) spec(key model.JobKey) *sources.Spec {
	spec := f.specs[key]
	parent, ok := f.parentOf(key)
	switch {
	case ok && spec == nil:
		return f.specs[parent]
	case ok:
		return spec.WithLate(f.specs[parent])
	}
	return spec
}

// isNoGang reports whether the object of a group is known, and says that it is no gang.
func (f *foreign) isNoGang(key model.JobKey) bool {
	spec := f.specs[key]
	return spec != nil && spec.NoGang
}

// dropForeign forgets a foreign object.
func (s *State) dropForeign(key model.JobKey) {
	s.foreign.set(key, nil)
	if s.leading && sources.WritesStatus(key.Source) { // who leads forgets what it has written; a standby would only keep the name
		s.foreign.news[key] = true
	} else {
		delete(s.foreign.news, key)
	}
}

// newsOf takes note that the status of a group may have to show something else.
func (s *State) newsOf(key model.JobKey) Effect {
	if !sources.WritesStatus(key.Source) || s.foreign.specs[key] == nil || s.foreign.isNoGang(key) {
		return Effect{}
	}
	s.foreign.news[key] = true
	return Effect{Report: true}
}

// TakeForeignNews returns the groups with a status of ours whose objects have changed since the last call, or that have lost
// their last member, in no order.
func (s *State) TakeForeignNews() []model.JobKey {
	news := slices.Collect(maps.Keys(s.foreign.news))
	s.foreign.news = emptyLike(s.foreign.news)
	return news
}

// OfOthers reports whether a group has no members of ours, and some of other schedulers.
func (s *State) OfOthers(key model.JobKey) bool {
	return len(s.pods.members[key]) == 0 && len(s.others.groups[key]) > 0
}

func (s *State) readForeignAgain(key model.JobKey) Effect {
	if len(s.pods.members[key]) == 0 {
		return Effect{}
	}
	s.dirty.addJob(key)
	return Effect{Schedule: true, Report: true}
}

// ReadingChanged says how far the objects of a source can be read. It is about no object.
type ReadingChanged struct {
	Source  model.Source
	Reading Reading
}

// GroupKey returns the key of the source: it has no name.
func (e *ReadingChanged) GroupKey() model.JobKey { return model.JobKey{Source: e.Source} }

func (e *ReadingChanged) object() (string, metav1.Object, bool) { return "reading", nil, false }

// apply takes note of the reading. What is no longer watched is no longer known: it will be read from the beginning.
func (e *ReadingChanged) apply(s *State, _ types.UID) (effect Effect) {
	source, reading := e.Source, e.Reading
	if s.foreign.readings[source] == reading {
		return Effect{}
	}
	s.foreign.readings[source] = reading
	if reading != IsRead {
		s.incarnations.forget(source.Kind())
	}
	for key := range s.foreign.specs {
		if key.Source == source && reading != IsRead {
			s.dropForeign(key)
			effect = effect.merge(s.readUncertainAgain(key))
		}
	}
	for key := range s.pods.members {
		if _, ofSet := sources.SetOf(key); ofSet || key.IsForeign() { // the object may be the parent of another one
			effect = effect.merge(s.readForeignAgain(key))
		}
	}
	return effect
}

// readForeign works out what a foreign object and the members ask for, and returns the priority class that it names. Without the
// object they wait, and never start alone.
func (s *State) readForeign(job *model.Job) (class string) {
	spec := s.foreign.spec(job.Key)
	if spec == nil {
		s.foreign.awaited[job.Key] = job.Key.Source
		job.Invalid = s.foreign.missing(job.Key)
		return ""
	}
	s.fillNeed(job, nil)
	s.history.seeWhole(job)
	stated := gang.Stated(job)
	job.Warning = joinNotes(spec.Remark, s.others.warning(job.Key))
	if !job.Whole && !spec.HasLate() && stated.FirstUnmetMinimum((*model.Task).Exists) == nil && s.wantsMore(job, spec) {
		job.Warning = joinNotes(job.Warning, "its minResources are more than its members request; only the capacity for these is waited for")
	}
	parent, ok := spec.Parent()
	if ok {
		job.Warning = joinNotes(job.Warning, s.foreign.unread(stated, parent))
	}
	if len(job.Tasks) > 0 && stated.FirstUnmetMinimum((*model.Task).Exists) != nil {
		for _, source := range []model.Source{job.Key.Source, parent.Source} {
			if watch := sources.WatchOf(source); watch.Lacking != nil {
				job.Warning = joinNotes(job.Warning, watch.Lacking(job))
			}
		}
	}
	return spec.PriorityClassName
}

// readImplicit works out what the pods of a group without an object ask for, and the LeaderWorkerSet that they are of.
func (s *State) readImplicit(job *model.Job) {
	s.fillNeed(job, nil)
	s.history.seeWhole(job)
	job.Warning = s.others.warning(job.Key)
	if set, ok := sources.SetOf(job.Key); ok {
		job.Warning = joinNotes(job.Warning, s.foreign.unread(gang.Stated(job), set))
	}
}

// unread says of a job that lacks members, or of which some are bound, that its parent is not read, and what ends the wait; empty
// when it is read.
func (f *foreign) unread(job *model.Job, parent model.JobKey) string {
	minima := job.Minima()
	begun := gang.IsBelow(&minima, job.Tasks)
	if f.specs[parent] != nil || !begun && job.FirstUnmetMinimum((*model.Task).Exists) == nil {
		return ""
	}
	f.awaited[job.Key] = parent.Source
	kept, right := "", ""
	if begun {
		kept = ", and what is bound of those is kept until it is read"
	}
	if f.readings[parent.Source] == NotAllowed {
		right = "; give the scheduler the right to list and watch objects of this kind"
	}
	watch := sources.WatchOf(parent.Source)
	return fmt.Sprintf("%s %q is not read, so that it is not known which pods are made only when others run%s%s%s",
		parent.Source.Kind(), parent.Name, kept, right, watch.Setting)
}

// missing is why the members of a group wait whose object is not known.
func (f *foreign) missing(key model.JobKey) *model.Refusal {
	kind := key.Source.Kind()
	watch := sources.WatchOf(key.Source)
	why := fmt.Sprintf("%s %q does not exist in this namespace", kind, key.Name)
	if watch.AfterOwn {
		why = fmt.Sprintf("neither PodGroup nor %s %q exists in this namespace", kind, key.Name)
	}
	switch f.readings[key.Source] {
	case NotRead:
		why = fmt.Sprintf("%s %q is not known: objects of this kind are not read yet", kind, key.Name)
	case NotServed:
		why = fmt.Sprintf("%s %q does not exist: the CRD of this kind is not installed", kind, key.Name)
		if watch.IsBuiltIn {
			why = fmt.Sprintf("%s %q does not exist: the API server does not serve this kind", kind, key.Name)
		}
	case NotAllowed:
		why = fmt.Sprintf("%s %q is not known: the scheduler lacks the right to list and watch objects of this kind", kind, key.Name)
	}
	return &model.Refusal{Code: model.GroupNotFound, Detail: why}
}

// wantsMore reports whether the object asks for more of a resource than all members request together. It reads the pods where the
// tasks do not take as much, since what these take depends on what the nodes offer. Where a member has succeeded it is not known:
// what that one requested is not kept.
func (s *State) wantsMore(job *model.Job, spec *sources.Spec) bool {
	if slices.ContainsFunc(job.Tasks, model.Succeeded.Is) {
		return false
	}
	lacks := func(wanted sources.Amount) bool { return !s.take(job.Tasks, wanted) }
	return slices.ContainsFunc(spec.MinResources, lacks) && requestLess(job.Tasks, spec.MinResources)
}

// take reports whether tasks take an amount together.
func (s *State) take(tasks []*model.Task, wanted sources.Amount) bool {
	position, offered := s.dimensions.Find(wanted.Name)
	rest, counted := model.Amount(wanted.Name, wanted.Quantity)
	each := int64(0)
	for i := 0; i < len(tasks) && rest > 0 && offered; i++ {
		if i == 0 || tasks[i].Shape != tasks[i-1].Shape { // requests of one shape are equal
			each = tasks[i].Request.At(position)
		}
		if tasks[i].Exists() {
			rest -= each
		}
	}
	return counted && rest <= 0
}

// requestLess reports whether the pods of tasks request less than one of the amounts.
func requestLess(tasks []*model.Task, wanted []sources.Amount) bool {
	rest := make([]resource.Quantity, len(wanted))
	for i := range wanted {
		rest[i] = wanted[i].Quantity.DeepCopy() // its number may be behind a pointer
	}
	for _, task := range tasks {
		if !task.Exists() {
			continue
		}
		requested := requestsOf(task.Pod, requests)
		for i := range wanted {
			rest[i].Sub(requested[wanted[i].Name])
		}
	}
	return slices.ContainsFunc(rest, func(amount resource.Quantity) bool { return amount.Sign() > 0 })
}
