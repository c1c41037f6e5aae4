package diagnose

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Kind is the kind of the named object.
type Kind string

// The kinds; Any is a PodGroup, else a pod. That of a group of another project is what model.Source calls it.
const (
	Any      Kind = ""
	PodGroup Kind = "PodGroup"
	Pod      Kind = "pod"
)

// Diagnose diagnoses the object of that name in the namespace. The error says that there is none, and gives the most similar
// name.
func Diagnose(namespace *Namespace, kind Kind, name string) (*Diagnosis, error) {
	if kind != Any && kind != PodGroup && kind != Pod {
		if a := diagnoseForeign(namespace, kind, name); a != nil {
			return a, nil
		}
		if a := diagnoseEmpty(namespace, kind, name); a != nil {
			return a, nil
		}
		return nil, fmt.Errorf("no pod names a %s %q in namespace %s", kind, name, namespace.Name)
	}
	if kind != Pod {
		if a := DiagnoseGroup(namespace, name); a != nil && (a.Reason != groupNotFound || kind == PodGroup || namespace.pod(name) == nil) {
			return a, nil
		}
	}
	if kind != PodGroup {
		if a := DiagnosePod(namespace, name); a != nil {
			return a, nil
		}
	}
	if a := diagnoseEmpty(namespace, kind, name); a != nil {
		return a, nil
	}
	what := string(kind)
	if kind == Any {
		what = "PodGroup or pod"
	}
	text := fmt.Sprintf("there is no %s %q in namespace %s", what, name, namespace.Name)
	if near := Nearest(name, namespace.groupNames()); near != "" && kind != Pod {
		text += fmt.Sprintf("; did you mean PodGroup %q?", near)
	} else if near := Nearest(name, namespace.podNames()); near != "" && kind != PodGroup {
		text += fmt.Sprintf("; did you mean pod %q?", near)
	}
	return nil, errors.New(text)
}

// diagnoseForeign diagnoses the group of another project of that kind and name; nil when no pod names one.
func diagnoseForeign(namespace *Namespace, kind Kind, name string) *Diagnosis {
	gangs := namespace.gangs(name)
	for i := range gangs {
		if gangs[i].kind() == string(kind) {
			return newDiagnosis(namespace, &gangs[i])
		}
	}
	return nil
}

// diagnoseEmpty diagnoses a group of another project that no pod names, of that kind or of any; nil when no object of one is
// known.
func diagnoseEmpty(namespace *Namespace, kind Kind, name string) *Diagnosis {
	for _, spec := range namespace.Foreign {
		if spec.Name == name && !spec.NoGang && (kind == Any || string(kind) == spec.Source.Kind()) {
			return &Diagnosis{
				Kind: spec.Source.Kind(), Namespace: namespace.Name, Name: name, Owner: ownerOf(spec), State: Waiting,
				Reason: string(model.NotEnoughMembers), Details: []string{fmt.Sprintf("needs %d, 0 exist", spec.MinMember), "no pod names it"},
				Members: &Members{Needs: int(spec.MinMember)},
			}
		}
	}
	return nil
}

// AllWaiting diagnoses the jobs of the namespace that wait: PodGroups, groups without an object, and pods without a group, in
// this order and each by name.
func AllWaiting(namespace *Namespace) []*Diagnosis {
	waiting := []*Diagnosis{}
	add := func(a *Diagnosis) {
		if a.State == Waiting || a.State == Unprocessed {
			waiting = append(waiting, a)
		}
	}
	for _, name := range namespace.named() {
		gangs := namespace.gangs(name)
		for i := range gangs {
			add(newDiagnosis(namespace, &gangs[i]))
		}
	}
	var alone []string
	for i := range namespace.Pods {
		if pod := &namespace.Pods[i]; namespace.groupName(pod) == "" && pod.Spec.NodeName == "" {
			alone = append(alone, pod.Name)
		}
	}
	for _, name := range slices.Sorted(slices.Values(alone)) {
		add(DiagnosePod(namespace, name))
	}
	return waiting
}
