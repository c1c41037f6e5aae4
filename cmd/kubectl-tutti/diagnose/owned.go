package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/sources"
)

// Owned is what is found of an object whose controllers make pods, such as an MPIJob.
type Owned struct {
	Kind string `json:"kind"`
	// Namespace is empty for an object of no namespace.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Pods is how many pods its controllers have made that are there.
	Pods int `json:"pods"`
	// Details say what it has beside jobs, or in place of them.
	Details []string `json:"details,omitempty"`
	// Notes are what could not be read.
	Notes []string `json:"notes,omitempty"`
	// Jobs are those of its pods and of its group objects, those that wait first.
	Jobs []*Diagnosis `json:"jobs"`
}

// DiagnoseOwned diagnoses the jobs of an object. owns reports whether an owner reference leads to it, as far as that could be
// read; unread says what could not.
func DiagnoseOwned(namespace *Namespace, kind, name string, owns func(metav1.OwnerReference) bool, unread []string) *Owned {
	o := &Owned{Kind: kind, Namespace: namespace.Name, Name: name, Notes: unread, Jobs: []*Diagnosis{}}
	pods := map[string]*corev1.Pod{} // by name: its pods that no job has listed yet
	for i := range namespace.Pods {
		pod := &namespace.Pods[i]
		if controller := metav1.GetControllerOf(pod); controller != nil && owns(*controller) {
			pods[pod.Name] = pod
		}
	}
	switch o.Pods = len(pods); {
	case o.Pods == 0 && len(unread) > 0:
		o.Details = []string{"no pods are known to be its own, as far as what controls them can be read"}
	case o.Pods == 0:
		o.Details = []string{"no pod of it exists: its controller has made none yet, or they are gone and are not made again yet; its own status and events say why"}
	}
	o.addGroups(namespace, pods, owns)
	left := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		if pod := pods[name]; foreign(pod) {
			left[pod.Spec.SchedulerName] = append(left[pod.Spec.SchedulerName], name)
		} else {
			o.Jobs = append(o.Jobs, diagnosePod(namespace, pod))
			if off := namespace.turnedOff(pod); off != "" && !slices.Contains(o.Details, off) {
				o.Details = append(o.Details, off)
			}
		}
	}
	for _, scheduler := range slices.Sorted(maps.Keys(left)) {
		o.Details = append(o.Details, fmt.Sprintf("%s: spec.schedulerName is %q, and Tutti leaves such pods alone; it is set in the pod template",
			few(left[scheduler]), scheduler))
	}
	slices.SortStableFunc(o.Jobs, func(a, b *Diagnosis) int { return cmp.Compare(a.State.rank(), b.State.rank()) })
	return o
}

// addGroups adds the groups that have a pod of it, or whose object it owns, and takes the pods of these. A group object that the
// pods name besides is no job of its own: a TrainJob has a PodGroup and a JobSet.
func (o *Owned) addGroups(namespace *Namespace, pods map[string]*corev1.Pod, owns func(metav1.OwnerReference) bool) {
	seen := map[string]bool{} // by kind and name
	for _, name := range namespace.named() {
		gangs := namespace.gangs(name)
		for i := range gangs {
			g := &gangs[i]
			if !slices.ContainsFunc(g.pods, func(pod *corev1.Pod) bool { return pods[pod.Name] != nil }) && !slices.ContainsFunc(g.owners(), owns) {
				continue
			}
			seen[g.kind()+"/"+g.name] = true
			o.Jobs = append(o.Jobs, newDiagnosis(namespace, g))
			for _, pod := range g.pods {
				for _, other := range sources.All().PassedOver(pod, namespace.jobOf(pod)) {
					seen[other.Source.Kind()+"/"+other.Name] = true
				}
				delete(pods, pod.Name)
			}
		}
	}
	for _, spec := range namespace.Foreign {
		if kind := spec.Source.Kind(); !spec.NoGang && slices.ContainsFunc(spec.OwnerReferences, owns) && !seen[kind+"/"+spec.Name] {
			o.Details = append(o.Details, fmt.Sprintf("it owns %s %q, which has minMember %d and no pods", kind, spec.Name, spec.MinMember))
		}
	}
}

// owners are those of the gang's object.
func (g *gang) owners() []metav1.OwnerReference {
	switch {
	case g.group != nil:
		return g.group.OwnerReferences
	case g.spec != nil:
		return g.spec.OwnerReferences
	}
	return nil
}

// Shown is how many jobs of an object are printed as text.
const Shown = 20

// Write prints the diagnosis of each job as text, below a line about the object unless that of its only job names it already. now
// is the time that ages are relative to.
func (o *Owned) Write(p *printer.Printer, now time.Time) {
	if len(o.Jobs) == 1 && len(o.Details)+len(o.Notes) == 0 && o.Jobs[0].names(o) {
		o.Jobs[0].Write(p, now)
		return
	}
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + o.Name
	}
	p.Printf("%s %s %s\n", o.Kind, name, o.summary())
	for _, detail := range o.Details {
		p.Printf("  %s\n", detail)
	}
	if len(o.Notes) > 0 {
		var rows [][]printer.Cell
		for i, note := range o.Notes {
			rows = append(rows, printer.Cells([]string{"Notes", ""}[min(i, 1)], note))
		}
		p.Printf("\n")
		p.Pairs(rows)
	}
	for i, job := range o.Jobs {
		p.Printf("\n")
		if i == Shown {
			p.Printf("and %d more: %s\n", len(o.Jobs)-i, states(o.Jobs[i:]))
			return
		}
		job.Write(p, now)
	}
}

// names reports whether the first line of the diagnosis names the object: it is the job, or its owner. A pod of a group has a
// line of its own.
func (a *Diagnosis) names(o *Owned) bool {
	return a.Group == nil && (a.Kind == o.Kind && a.Name == o.Name || a.Owner == o.Kind+"/"+o.Name)
}

// summary is how its jobs stand, in one line.
func (o *Owned) summary() printer.Cell {
	switch {
	case o.Pods == 0 && len(o.Jobs) == 0:
		return printer.Cell{Text: "has no jobs", Style: printer.Red}
	case len(o.Jobs) == 0:
		return printer.Cell{Text: "has no pods for Tutti to place", Style: printer.Red}
	case len(o.Jobs) == 1:
		return printer.Cell{Text: "has 1 job"}
	}
	return printer.Cell{Text: fmt.Sprintf("has %d jobs: %s", len(o.Jobs), states(o.Jobs))}
}

// states counts jobs by state.
func states(jobs []*Diagnosis) string {
	counts := map[State]int{}
	for _, job := range jobs {
		counts[job.State]++
	}
	var texts []string
	for _, state := range order {
		if n := counts[state]; n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, state.adjective()))
		}
	}
	return strings.Join(texts, ", ")
}

// order is that in which jobs of an object are shown.
var order = []State{Waiting, Unprocessed, Degraded, Started, Ended, OtherScheduler}

func (s State) rank() int { return slices.Index(order, s) }

// adjective is the state behind a number of jobs.
func (s State) adjective() string {
	switch s {
	case Unprocessed:
		return "not looked at"
	case OtherScheduler:
		return "of another scheduler"
	}
	return strings.ToLower(string(s))
}
