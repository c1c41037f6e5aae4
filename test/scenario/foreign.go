package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file plays group objects of other projects: as the API server holds them, without a schema, and what the scheduler keeps
// of them.

// watchOf returns what a source watches.
func watchOf(name string) (watch sources.Watch, err error) {
	for _, source := range sources.All() {
		if watch := source.Watch(); source.Name() == name && watch != nil {
			return *watch, nil
		}
	}
	return watch, fmt.Errorf("no foreign source %s", name)
}

// foreignWords says where the words of a line go, by the source that the line is of. A number is one, what is no number a text,
// and a word without a value an empty object; a.b=1 is b within what a is, and a=b:1,c:2 several of these.
var foreignWords = map[string]map[string][]string{
	"coscheduling": {"min": {"spec", "minMember"}, "resources": {"spec", "minResources"}},
	"volcano": {
		"min": {"spec", "minMember"}, "tasks": {"spec", "minTaskMember"}, "queue": {"spec", "queue"}, "class": {"spec", "priorityClassName"},
		"resources": {"spec", "minResources"}, "topology": {"spec", "networkTopology", "mode"},
	},
	"kubernetes": {
		"min": {"spec", "schedulingPolicy", "gang", "minCount"}, "basic": {"spec", "schedulingPolicy", "basic"},
		"class": {"spec", "priorityClassName"}, "preemption": {"spec", "preemptionPolicy"}, "disruption": {"spec", "disruptionMode"},
		"topology": {"spec", "schedulingConstraints", "topology"},
	},
	"leaderworkerset": {"startup": {"spec", "startupPolicy"}},
	"jobset":          {}, // see replicatedJobs
}

// setForeign adds or changes an object of a source.
func (w *world) setForeign(one line) error {
	watch, err := watchOf(one.kind)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if one.kind == "jobset" {
		object.Object["spec"] = map[string]any{"replicatedJobs": replicatedJobs(one.words)}
		one.words = slices.DeleteFunc(slices.Clone(one.words), func(w word) bool { return w.key != "age" })
	}
	for _, word := range one.words {
		name, within, inner := strings.Cut(word.key, ".")
		path, known := foreignWords[one.kind][name]
		switch {
		case word.key == "age":
			continue
		case !known:
			return fmt.Errorf("no word %s", word.key)
		case inner:
			path = append(slices.Clone(path), within)
		}
		value := valueOf(word)
		if one.kind == "kubernetes" && name == "topology" {
			value = labelsShared(word.value)
		}
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			return fmt.Errorf("%s: %w", word.key, err)
		}
	}
	job := model.JobKey{Namespace: one.namespace, Name: one.name, Source: watch.Source}
	if err := w.stamp(object, known(w.foreign[job]), one); err != nil {
		return err
	}
	w.tellOfForeign(watch, job, object)
	return nil
}

// replicatedJobs are those of a JobSet, from words such as prepare=1 and train=3:later,cpu=2; what is later depends on the one
// before, and may say what each pod requests.
func replicatedJobs(words []word) (jobs []any) {
	before := ""
	for _, w := range words {
		if w.key == "age" {
			continue
		}
		replicas, later, _ := strings.Cut(w.value, ":")
		n, _ := strconv.ParseInt(replicas, 10, 64)
		job := map[string]any{"name": w.key, "replicas": n}
		if later != "" {
			job["dependsOn"] = []any{map[string]any{"name": before, "status": "Ready"}}
			requests := map[string]any{}
			for _, request := range strings.Split(later, ",")[1:] {
				name, amount, _ := strings.Cut(request, "=")
				requests[name] = amount
			}
			container := map[string]any{"resources": map[string]any{"requests": requests}}
			job["template"] = map[string]any{"spec": map[string]any{"template": map[string]any{
				"spec": map[string]any{"containers": []any{container}},
			}}}
		}
		jobs, before = append(jobs, job), w.key
	}
	return jobs
}

// jobSetGroup is a JobSet as a PodGroup of ours would say it. Jobs that are later count once one of their pods exists; where the
// JobSet has begun, once one has a place.
func (s *environment) jobSetGroup(job model.JobKey) *v1alpha1.PodGroup {
	object := s.world.foreign[job]
	if object == nil || s.world.readings[job.Source] != cluster.IsRead {
		return nil
	}
	group := &v1alpha1.PodGroup{}
	jobs, _, _ := unstructured.NestedSlice(object.Object, "spec", "replicatedJobs")
	begun := slices.ContainsFunc(slices.Collect(maps.Values(s.world.pods)), func(pod *corev1.Pod) bool {
		return s.jobOf(pod) == job && pod.Status.Phase == corev1.PodRunning
	})
	for _, one := range jobs {
		fields := one.(map[string]any)
		role := v1alpha1.Role{Name: fields["name"].(string), MinMember: int32(fields["replicas"].(int64))}
		later, exist, placed := fields["dependsOn"] != nil, 0, int32(0)
		for _, pod := range s.world.pods {
			if s.jobOf(pod) == job && s.roleOf(pod) == role.Name && pod.Status.Phase != corev1.PodFailed && pod.DeletionTimestamp == nil {
				exist++
				if s.hasPlace(pod) {
					placed++
				}
			}
		}
		if !later || placed > 0 || exist > 0 && !begun {
			group.Spec.MinMember += role.MinMember
			group.Spec.Roles = append(group.Spec.Roles, role)
		}
	}
	group.Spec.MinMember = max(1, group.Spec.MinMember)
	return group
}

// labelsShared are the constraints of a PodGroup of Kubernetes, from keys of labels with commas between them.
func labelsShared(keys string) (topology []any) {
	for _, key := range strings.Split(keys, ",") {
		topology = append(topology, map[string]any{"key": key})
	}
	return topology
}

func valueOf(w word) any {
	if w.value == "" {
		return map[string]any{}
	}
	if strings.Contains(w.value, ":") {
		several := map[string]any{}
		for _, item := range strings.Split(w.value, ",") {
			name, value, _ := strings.Cut(item, ":")
			several[name] = valueOf(word{name, value})
		}
		return several
	}
	if n, err := strconv.ParseInt(w.value, 10, 64); err == nil {
		return n
	}
	return w.value
}

func (w *world) tellOfForeign(watch sources.Watch, job model.JobKey, object *unstructured.Unstructured) {
	w.cycle++
	w.foreign[job] = object
	if w.readings[job.Source] == cluster.IsRead {
		w.tell(&cluster.ForeignSeen{Spec: watch.Decode(object)})
	}
}

// sourceName is how lines name the source of a foreign object.
func sourceName(of model.Source) string {
	for _, source := range sources.All() {
		if watch := source.Watch(); watch != nil && watch.Source == of {
			return source.Name()
		}
	}
	return ""
}

// foreignGroup is a foreign object as a PodGroup of ours would say it; nil when it is not known.
func (w *world) foreignGroup(job model.JobKey) *v1alpha1.PodGroup {
	object := w.foreign[job]
	if object == nil || w.readings[job.Source] != cluster.IsRead {
		return nil
	}
	at := func(word string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(object.Object, foreignWords[sourceName(job.Source)][word]...)
		return value
	}
	group := &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: 1}}
	if minimum, ok := at("min").(int64); ok {
		group.Spec.MinMember = int32(max(1, minimum))
	}
	group.Spec.PriorityClassName, _ = at("class").(string)
	group.Spec.Queue, _ = at("queue").(string)
	sum, tasks := int64(0), []v1alpha1.Role{}
	several, _ := at("tasks").(map[string]any)
	for name, minimum := range several {
		n, _ := minimum.(int64)
		tasks, sum = append(tasks, v1alpha1.Role{Name: name, MinMember: int32(n)}), sum+n
	}
	if sum <= int64(group.Spec.MinMember) {
		group.Spec.Roles = tasks
	}
	shared, _ := at("topology").([]any) // of Volcano it is a mode
	for _, one := range shared {
		key, _ := one.(map[string]any)["key"].(string)
		group.Spec.Topology = append(group.Spec.Topology, v1alpha1.TopologyConstraint{Level: key})
	}
	return group
}

// isBasic reports whether the group of Kubernetes is known, and says that it is no gang.
func (w *world) isBasic(job model.JobKey) bool {
	object := w.foreign[job]
	if object == nil || w.readings[job.Source] != cluster.IsRead {
		return false
	}
	policy, _, _ := unstructured.NestedMap(object.Object, "spec", "schedulingPolicy")
	constraints, _, _ := unstructured.NestedMap(object.Object, "spec", "schedulingConstraints")
	return policy["basic"] != nil && policy["gang"] == nil && constraints["topology"] == nil
}

// startupPolicy is that of the LeaderWorkerSet of a group; known is false when that cannot be read.
func (w *world) startupPolicy(job model.JobKey) (policy string, known bool) {
	set := job
	set.Source, set.Owner, set.Name = model.SourceLeaderWorkerSetObject, "", job.Name[:max(0, strings.LastIndex(job.Name, "-"))]
	if w.foreign[set] == nil || w.readings[set.Source] != cluster.IsRead {
		return "", false
	}
	policy, _, _ = unstructured.NestedString(w.foreign[set].Object, "spec", "startupPolicy")
	return policy, true
}

// removeForeign deletes objects of a source.
func (w *world) removeForeign(source string, names []string) error {
	watch, err := watchOf(source)
	if err != nil {
		return err
	}
	for _, name := range names {
		namespace, bare := splitName(name)
		job := model.JobKey{Namespace: namespace, Name: bare, Source: watch.Source}
		object := w.foreign[job]
		if object == nil {
			return fmt.Errorf("no %s %s", source, name)
		}
		delete(w.foreign, job)
		w.revision++
		last := object.DeepCopy()
		last.SetResourceVersion(strconv.Itoa(w.revision))
		if w.readings[job.Source] == cluster.IsRead {
			w.tell(&cluster.ForeignSeen{Spec: watch.Decode(last), Gone: true})
		}
	}
	return nil
}

// read lets the objects of a source be read, or not any more: yes, notyet, absent or forbidden.
func (w *world) read(source, how string) error {
	watch, err := watchOf(source)
	if err != nil {
		return err
	}
	reading, ok := map[string]cluster.Reading{
		"yes": cluster.IsRead, "notyet": cluster.NotRead, "absent": cluster.NotServed, "forbidden": cluster.NotAllowed,
	}[how]
	if !ok {
		return fmt.Errorf("no reading %s", how)
	}
	w.readings[watch.Source] = reading
	w.tellOfSource(watch, w.tell)
	return nil
}

// tellForeign tells of what can be read, and of the objects that can.
func (w *world) tellForeign(tell func(cluster.Event)) {
	for _, source := range sources.All() {
		if watch := source.Watch(); watch != nil {
			w.tellOfSource(*watch, tell)
		}
	}
}

func (w *world) tellOfSource(watch sources.Watch, tell func(cluster.Event)) {
	reading := w.readings[watch.Source]
	tell(&cluster.ReadingChanged{Source: watch.Source, Reading: reading})
	for job, object := range w.foreign {
		if job.Source == watch.Source && reading == cluster.IsRead {
			tell(&cluster.ForeignSeen{Spec: watch.Decode(object)})
		}
	}
}
