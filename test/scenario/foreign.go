package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file plays group objects of other projects: as the API server holds them, without a schema, and what the scheduler keeps
// of them.

// watchOf returns what a source watches.
func watchOf(name string) (watch groups.Watch, err error) {
	for _, source := range groups.All() {
		if watches := source.Watches(); source.Name() == name && len(watches) > 0 {
			return watches[0], nil
		}
	}
	return watch, fmt.Errorf("no foreign source %s", name)
}

// setForeign adds or changes an object of a source: min= is spec.minMember, a number or else a text, and resources.cpu= an
// amount of spec.minResources.
func (w *world) setForeign(one line) error {
	watch, err := watchOf(one.kind)
	if err != nil {
		return err
	}
	spec, resources := map[string]any{}, map[string]any{}
	for _, word := range one.words {
		name, isResource := strings.CutPrefix(word.key, "resources.")
		switch minimum, err := strconv.ParseInt(word.value, 10, 64); {
		case isResource:
			resources[name] = word.value
		case word.key == "min" && err != nil:
			spec["minMember"] = word.value
		case word.key == "min":
			spec["minMember"] = minimum
		case word.key != "age":
			return fmt.Errorf("no word %s", word.key)
		}
	}
	if len(resources) > 0 {
		spec["minResources"] = resources
	}
	w.cycle++
	job := model.JobKey{Namespace: one.namespace, Name: one.name, Source: watch.Source}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	if err := w.stamp(object, known(w.foreign[job]), one); err != nil {
		return err
	}
	w.foreign[job] = object
	w.tell(cluster.ForeignEvent(watch.Decode(object)))
	return nil
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
		event := cluster.ForeignEvent(watch.Decode(last))
		event.Deleted = true
		w.tell(event)
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
	w.tellForeign(w.tell)
	return nil
}

// tellForeign tells of what can be read, and of the objects that can.
func (w *world) tellForeign(tell func(cluster.Event)) {
	for _, source := range groups.All() {
		for _, watch := range source.Watches() {
			reading := w.readings[watch.Source]
			tell(cluster.Event{Kind: cluster.KindReading, Source: watch.Source, Reading: reading})
			for job, object := range w.foreign {
				if job.Source == watch.Source && reading == cluster.IsRead {
					tell(cluster.ForeignEvent(watch.Decode(object)))
				}
			}
		}
	}
}
