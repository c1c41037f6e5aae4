package cluster

import (
	"fmt"
	"maps"

	"github.com/tutti-sched/tutti/internal/cluster/groups"
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
	specs    map[model.JobKey]*groups.Spec
	readings map[model.Source]Reading
}

func newForeign() foreign {
	return foreign{specs: map[model.JobKey]*groups.Spec{}, readings: map[model.Source]Reading{}}
}

// applyForeign takes in a new version of a foreign object, or its end. A version that says the same changes nothing, and so does
// an object without members.
func (s *State) applyForeign(spec *groups.Spec, deleted bool) Effect {
	key := spec.Key()
	wasNoGang := s.foreign.isNoGang(key)
	switch {
	case deleted:
		delete(s.foreign.specs, key)
	case spec.Same(s.foreign.specs[key]):
		s.foreign.specs[key] = spec
		return Effect{}
	default:
		s.foreign.specs[key] = spec
	}
	effect := s.readForeignAgain(key)
	if s.foreign.isNoGang(key) != wasNoGang {
		effect = effect.merge(s.readUncertainAgain(key))
	}
	if key.Source != model.SourceJobSet && key.Source != model.SourceMPIJob {
		return effect
	}
	for _, source := range []model.Source{model.SourceCoscheduling, model.SourceVolcano} { // whose late roles it may say
		effect = effect.merge(s.readForeignAgain(model.JobKey{Namespace: key.Namespace, Name: key.Name, Source: source}))
	}
	return effect
}

// spec returns what the object of a group says, with the late roles of its parent; nil when it is not known.
func (f *foreign) spec(key model.JobKey) *groups.Spec {
	spec := f.specs[key]
	if spec == nil {
		return nil
	}
	if parent, ok := spec.Parent(); ok {
		return spec.WithLate(f.specs[parent])
	}
	return spec
}

// isNoGang reports whether the object of a group is known, and says that it is no gang.
func (f *foreign) isNoGang(key model.JobKey) bool {
	spec := f.specs[key]
	return spec != nil && spec.NoGang
}

func (s *State) readForeignAgain(key model.JobKey) Effect {
	if len(s.members[key]) == 0 {
		return Effect{}
	}
	s.dirtyJobs[key] = struct{}{}
	return Effect{Schedule: true, Report: true}
}

// applyReading takes note of how far the objects of a source can be read. What is not watched any more is not known any more: it
// will be read from the beginning.
func (s *State) applyReading(source model.Source, reading Reading) (effect Effect) {
	if s.foreign.readings[source] == reading {
		return Effect{}
	}
	s.foreign.readings[source] = reading
	if reading != IsRead {
		s.incarnations.forget(kindOf(source))
	}
	for key := range s.foreign.specs {
		if key.Source == source && reading != IsRead {
			delete(s.foreign.specs, key)
			effect = effect.merge(s.readUncertainAgain(key))
		}
	}
	for key := range s.members {
		if key.IsForeign() { // the object may be the parent of another one
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
		job.Invalid = s.foreign.missing(job.Key)
		return ""
	}
	groups.FillForeign(job, spec)
	s.seeWhole(job)
	job.Warning = joinNotes(spec.Remark, s.others.warning(job.Key))
	if !job.Whole && job.FirstUnmetMinimum((*model.Task).Exists) == nil && wantsMore(job, spec) {
		job.Warning = joinNotes(job.Warning, "its minResources are more than its members request; only the capacity for these is waited for")
	}
	if parent, ok := spec.Parent(); ok && s.foreign.specs[parent] == nil && job.FirstUnmetMinimum((*model.Task).Exists) != nil {
		job.Warning = joinNotes(job.Warning, fmt.Sprintf("%s %q is not read, so that it is not known which pods are made only when others run", parent.Source.Kind(), parent.Name)+
			settingOf[parent.Source])
	}
	return spec.PriorityClassName
}

// settingOf is how users say what a parent that is not read would say.
var settingOf = map[model.Source]string{
	model.SourceMPIJob: "; with launcherCreationPolicy: WaitForWorkersReady set runPolicy.schedulingPolicy.minAvailable to the number of workers",
	model.SourceJobSet: "; a runtime whose steps depend on each other must not have a podGroupPolicy",
}

// missing is why the members of a group wait whose object is not known.
func (f *foreign) missing(key model.JobKey) *model.Refusal {
	kind := key.Source.Kind()
	why := fmt.Sprintf("%s %q does not exist in this namespace", kind, key.Name)
	if key.Source == model.SourceVolcano {
		why = fmt.Sprintf("neither PodGroup nor %s %q exists in this namespace", kind, key.Name)
	}
	switch f.readings[key.Source] {
	case NotRead:
		why = fmt.Sprintf("%s %q is not known: objects of this kind are not read yet", kind, key.Name)
	case NotServed:
		why = fmt.Sprintf("%s %q does not exist: the CRD of this kind is not installed", kind, key.Name)
		if key.Source == model.SourceNative {
			why = fmt.Sprintf("%s %q does not exist: the API server does not serve this kind", kind, key.Name)
		}
	case NotAllowed:
		why = fmt.Sprintf("%s %q is not known: the scheduler lacks the right to list and watch objects of this kind", kind, key.Name)
	}
	return &model.Refusal{Code: model.GroupNotFound, Detail: why}
}

// wantsMore reports whether the object asks for more of a resource than all members request together. It reads the pods and not
// what the tasks take, which depends on what the nodes offer.
func wantsMore(job *model.Job, spec *groups.Spec) bool {
	if len(spec.MinResources) == 0 {
		return false
	}
	wanted := maps.Clone(spec.MinResources)
	for _, task := range job.Tasks {
		if !task.Exists() {
			continue
		}
		for name, amount := range requestsOf(task.Pod, requests) {
			if rest, there := wanted[name]; there {
				rest.Sub(amount)
				wanted[name] = rest
			}
		}
	}
	return len(namesIn(wanted)) > 0
}
