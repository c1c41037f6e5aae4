package debugapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what a person reads of each list: a row for each item, in the order of the items.

// AcceptTable is the header Accept of a request for the table of a list.
const AcceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// Table is the table of a list, as an API server has tables, and what there is to say below it.
type Table struct {
	metav1.Table `json:",inline"`
	Notes        []string `json:"notes,omitempty"`
	// items are what the rows are of.
	items []any
}

// newTable returns a table without rows. A column whose name begins with + is shown where the reader asks for wide output;
// the cells of one whose name begins with @ change as time goes by.
func newTable(of ListMeta, columns ...string) *Table {
	t := &Table{Table: metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, Rows: []metav1.TableRow{}}}
	for _, name := range columns {
		column := metav1.TableColumnDefinition{Name: strings.TrimLeft(name, "+@"), Type: "string"}
		switch name[0] {
		case '+':
			column.Priority = 1
		case '@':
			column.Type = "date"
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, column)
	}
	if !of.Leading {
		t.note(NotLeading)
	}
	return t
}

// row adds the row of an item, a pointer to one of the types of this package. It refers to the item by its name. An empty cell is
// shown as "-".
func (t *Table) row(item metav1.Object, cells ...any) {
	for i := range cells {
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	named := metav1.ObjectMeta{Namespace: item.GetNamespace(), Name: item.GetName()}
	t.items = append(t.items, item)
	t.Rows = append(t.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: named,
	}}})
}

// include puts the whole items into the rows.
func (t *Table) include() error {
	for i := range t.Rows {
		text, err := json.Marshal(t.items[i])
		if err != nil {
			return err
		}
		t.Rows[i].Object = runtime.RawExtension{Raw: text}
	}
	return nil
}

// NotLeading is what there is to say of a list of a scheduler that does not lead.
const NotLeading = "This scheduler does not lead: it runs no cycles, and does not know what the leader is about to write."

func (t *Table) note(format string, arguments ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, arguments...))
}

// Table has what is idle of what there is of each resource, other than pods, which are counted, ephemeral-storage, and isolated
// CPUs, which have a column of their own where a node has any.
func (l *NodeList) Table() *Table {
	var offered []corev1.ResourceList
	for i := range l.Items {
		offered = append(offered, l.Items[i].Allocatable)
	}
	resources := withColumns(offered, corev1.ResourcePods, corev1.ResourceEphemeralStorage, isolated.Resource)
	header := append([]string{"Name", "Pods"}, headers(resources)...)
	isolatedAny := slices.ContainsFunc(l.Items, func(node Node) bool { return node.Isolated != nil })
	if isolatedAny {
		header = append(header, "Isolated")
	}
	t := newTable(l.ListMeta, append(header, "Nominated", "Reserved", "Remark", "+Releasing", "+Free CPUs", "+Kept")...)
	for i := range l.Items {
		item := &l.Items[i]
		row, isolated, free := []any{item.Name, item.Pods}, "", ""
		for _, name := range resources {
			row = append(row, part(name, item.Idle, item.Allocatable, ""))
		}
		if item.Isolated != nil {
			isolated, free = fmt.Sprintf("%d/%d", item.Isolated.Free, item.Isolated.Total), item.Isolated.FreeCPUs
		}
		if isolatedAny {
			row = append(row, isolated)
		}
		t.row(item, append(row, jobsOf(item.Nominated), jobsOf(item.Reserved), item.remark(), amounts(item.Releasing), free,
			keptFor(slices.Concat(item.Nominated, item.Reserved)))...)
	}
	if len(l.Items) == 0 {
		t.note("The scheduler knows no nodes.")
	}
	return t
}

// withColumns returns the resources that have a column: CPU and memory, and the others of the lists without these.
func withColumns(lists []corev1.ResourceList, without ...corev1.ResourceName) []corev1.ResourceName {
	first, more := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}, map[corev1.ResourceName]bool{}
	for _, list := range lists {
		for name := range list {
			if !slices.Contains(first, name) && !slices.Contains(without, name) {
				more[name] = true
			}
		}
	}
	return append(first, slices.Sorted(maps.Keys(more))...)
}

// part writes an amount and the amount that it is a part of; otherwise is written where there is none.
func part(name corev1.ResourceName, of, all corev1.ResourceList, otherwise string) string {
	if most, has := all[name]; has {
		return amount(name, of[name]) + "/" + amount(name, most)
	}
	return otherwise
}

// remark says why the node takes no pods, and which devices are not counted there.
func (n *Node) remark() string {
	var remarks []string
	if n.Unschedulable {
		remarks = append(remarks, "cordoned")
	}
	if n.Refused != "" {
		remarks = append(remarks, n.Refused)
	}
	if n.Isolated != nil && n.Isolated.Stale {
		remarks = append(remarks, "the agent for isolated CPUs is not heard of")
	}
	for _, name := range slices.Sorted(maps.Keys(n.Uncounted)) {
		remarks = append(remarks, fmt.Sprintf("%s is not counted: %s", name, n.Uncounted[name]))
	}
	return strings.Join(remarks, "; ")
}

// jobsOf lists the jobs that capacity is kept for.
func jobsOf(kept []Kept) string {
	var jobs []string
	for i := range kept {
		if !slices.Contains(jobs, kept[i].Job) {
			jobs = append(jobs, kept[i].Job)
		}
	}
	return strings.Join(jobs, ", ")
}

// keptFor lists what is kept for which job.
func keptFor(kept []Kept) string {
	var texts []string
	for i := range kept {
		text := kept[i].Job
		if kept[i].Pod != "" {
			text += " (" + kept[i].Pod + ")"
		}
		text += ": " + amounts(kept[i].Resources)
		if kept[i].LentUntil != nil {
			text += ", lent until " + kept[i].LentUntil.UTC().Format(time.RFC3339)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// Table has the domains, each below the one around it, and what is idle of the extended resource that is scarcest in its
// topology.
func (l *DomainList) Table() *Table {
	t := newTable(l.ListMeta, "Name", "Level", "Topology", "Nodes", "Used", "State", "Idle")
	scarcest := map[string]corev1.ResourceName{}
	for _, level := range l.Levels {
		scarcest[level.Topology] = l.scarcest(level.Topology)
		domains, whole := 0, 0
		for i := range l.Items {
			if domain := &l.Items[i]; domain.Level == level.Name && domain.Topology == level.Topology {
				domains++
				if domain.Used == 0 {
					whole++
				}
			}
		}
		t.note("Topology %s, level %s: domains: %d, whole: %d, in use: %d; nodes in none: %d", level.Topology, level.Name, domains, whole, domains-whole,
			level.Unlabelled)
	}
	if len(l.Levels) == 0 {
		t.note("The configuration declares no topologies.")
	}
	for i := range l.Items {
		domain, state := &l.Items[i], "whole"
		if domain.Used > 0 {
			state = "in use"
		}
		name := scarcest[domain.Topology]
		t.row(domain, strings.Repeat("  ", strings.Count(domain.Name, "/"))+domain.Name, domain.Level, domain.Topology, domain.Nodes, domain.Used,
			state, amount(name, domain.Idle[name])+"/"+amount(name, domain.Allocatable[name])+" "+shortName(name))
	}
	return t
}

// scarcest returns the extended resource of which the smallest part is idle in the domains of a topology, the first by name of
// several; cpu where there is none.
func (l *DomainList) scarcest(topology string) corev1.ResourceName {
	idle, all := map[corev1.ResourceName]float64{}, map[corev1.ResourceName]float64{}
	for i := range l.Items {
		if l.Items[i].Topology != topology {
			continue
		}
		for name, offered := range l.Items[i].Allocatable {
			free := l.Items[i].Idle[name]
			idle[name] += free.AsApproximateFloat64()
			all[name] += offered.AsApproximateFloat64()
		}
	}
	least := corev1.ResourceCPU
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.Contains(string(name), "/") || name == isolated.Resource || all[name] == 0 {
			continue
		}
		if least == corev1.ResourceCPU || idle[name]*all[least] < idle[least]*all[name] {
			least = name
		}
	}
	return least
}

// Table has the tree of queues: for each resource what a queue holds of its limit. Each pod is one of the resource pods, which
// has a column only where it is limited.
func (l *QueueList) Table() *Table {
	var lists []corev1.ResourceList
	without := []corev1.ResourceName{corev1.ResourcePods}
	for i := range l.Items {
		queue := &l.Items[i]
		lists = append(lists, queue.Used, queue.Share, queue.Demand, queue.Asked, queue.Limit, queue.Guarantee)
		_, limited := queue.Limit[corev1.ResourcePods]
		if _, guaranteed := queue.Guarantee[corev1.ResourcePods]; limited || guaranteed {
			without = nil
		}
	}
	resources := withColumns(lists, without...)
	header := append([]string{"Name", "State", "Running", "Waiting"}, headers(resources)...)
	t := newTable(l.ListMeta, append(header, "Share", "Guarantee", "Borrowed", "+Weight", "+Turn", "+Waiting For", "+Message")...)
	state := "Active"
	if l.Paused != "" {
		state = "Paused"
		t.note("Paused: no job starts, of any queue: %s", l.Paused)
	}
	indents := map[string]string{}
	for i := range l.Items {
		queue := &l.Items[i]
		if above, ok := indents[queue.Parent]; ok {
			indents[queue.Name] = above + "  "
		} else {
			indents[queue.Name] = ""
		}
		row := []any{indents[queue.Name] + queue.Name, cmp.Or(queue.Inactive, state), queue.RunningJobs, queue.WaitingJobs}
		for _, name := range resources {
			row = append(row, part(name, queue.Used, queue.Limit, amount(name, queue.Used[name])+"/-"))
		}
		guarantee, messages, turn := cmp.Or(amounts(queue.Guarantee), "-"), []string{}, ""
		if queue.Message != "" {
			messages = append(messages, queue.Message)
		}
		if reason, _, unmet := strings.Cut(queue.Unmet, ":"); unmet {
			guarantee += ", unmet: " + reason
			messages = append(messages, "guarantee: "+queue.Unmet)
		} else if queue.Oversubscribed != "" {
			guarantee += ", " + model.UnmetOversubscribed
			messages = append(messages, "guarantee: "+queue.Oversubscribed)
		}
		var waiting []string
		for _, one := range queue.WaitingFor {
			waiting = append(waiting, fmt.Sprintf("%d %s", one.Jobs, one.Reason))
		}
		if queue.Turn > 0 {
			turn = fmt.Sprint(queue.Turn)
		}
		t.row(queue, append(row, amounts(queue.Share), guarantee, amounts(queue.Borrowed), queue.Weight, turn, strings.Join(waiting, ", "),
			strings.Join(messages, "; "))...)
	}
	if len(l.Items) == 0 {
		t.note("There are no Queues: all jobs are in one queue without a limit, regardless of the queue that they name.")
	}
	for _, job := range l.Misplaced {
		t.note("No queue takes %s", job)
	}
	return t
}

// Table has how long each cycle and each part of it took, and how many pods it bound, evicted and nominated.
func (l *CycleList) Table() *Table {
	t := newTable(l.ListMeta, "Name", "Start", "Took", "Jobs", "Waiting", "Bound", "Evicted", "Nominated", "Reserved", "Panics", "Parts", "+Decisions")
	for _, cycle := range l.Items {
		var parts, decisions []string
		for _, part := range cycle.Parts {
			if part.Took.Duration >= time.Microsecond {
				parts = append(parts, part.Name+" "+short(part.Took.Duration))
			}
		}
		for i := range cycle.Decisions {
			decisions = append(decisions, cycle.Decisions[i].String())
		}
		if more := cycle.Decided - len(cycle.Decisions); more > 0 {
			decisions = append(decisions, fmt.Sprintf("and %d more jobs", more))
		}
		t.row(cycle, cycle.Name, cycle.Start.UTC().Format("15:04:05.000"), short(cycle.Took.Duration), cycle.Jobs, cycle.Waiting, cycle.Binds,
			cycle.Evictions, cycle.Nominations, cycle.Reservations, cycle.Panics, strings.Join(parts, ", "), strings.Join(decisions, "; "))
	}
	t.note("Cycles since the process began: %d", l.Total)
	return t
}

// String says what was decided: "ml/train: 4 bound".
func (d *Decision) String() string {
	var did []string
	for _, what := range []struct {
		n    int
		text string
	}{
		{d.Binds, "bound"}, {d.Evictions, "evicted for it"}, {d.Nominations, "nominated"}, {d.NominationsReleased, "lost their nomination"},
	} {
		if what.n > 0 {
			did = append(did, fmt.Sprintf("%d %s", what.n, what.text))
		}
	}
	if d.Reserved != "" {
		did = append(did, "capacity reserved on "+d.Reserved)
	}
	return d.Job + ": " + strings.Join(did, ", ")
}

// Table has where the configuration came from. Its text is in the list alone.
func (l *ConfigList) Table() *Table {
	t := newTable(ListMeta{Leading: true}, "Name", "Source", "Revision", "In Use Since", "Paused", "Refused")
	for i := range l.Items {
		config, refused := &l.Items[i], ""
		if config.Refused != nil {
			refused = config.Refused.At.UTC().Format(time.RFC3339)
			t.note("Refused, revision %s:", cmp.Or(config.Refused.Revision, "unknown"))
			t.Notes = append(t.Notes, strings.Split(config.Refused.Error, "\n")...)
		}
		t.row(config, config.Name, config.Source, config.Revision, config.Since.UTC().Format(time.RFC3339), config.Paused, refused)
	}
	return t
}

// Table has how each job stands, and below it how many jobs of each namespace wait, run and have ended.
func (l *JobList) Table() *Table {
	about := l.ListMeta
	about.Leading = about.Leading || len(l.SchedulerNames) == 0 // it is made of objects
	t := newTable(about, "Name", "Phase", "Members", "Bound", "Running", "Reason", "@Waits", "@Age", "+Queue", "+Priority", "+Topology", "+Message")
	t.Notes = append(t.Notes, l.Notes...)
	if len(l.Items) == 0 && len(l.SchedulerNames) > 0 {
		t.note("Of pods and PodGroups with another schedulerName than %s the scheduler knows nothing.", strings.Join(l.SchedulerNames, ", "))
	}
	totals := map[string]map[string]int{} // by namespace and standing
	for i := range l.Items {
		job := &l.Items[i]
		if totals[job.Namespace] == nil {
			totals[job.Namespace] = map[string]int{}
		}
		totals[job.Namespace][job.standing()]++
		needs, waits, reason := "?", "", job.Reason
		if job.Needs > 0 {
			needs = fmt.Sprint(job.Needs)
		}
		if job.WaitingSince != nil {
			waits = duration.HumanDuration(l.At.Sub(job.WaitingSince.Time))
		}
		if !job.Waits() && reason == v1alpha1.ConditionScheduled {
			reason = "" // the phase is enough
		}
		t.row(job, job.title(), string(job.Phase), fmt.Sprintf("%d/%s", job.Has, needs), job.Bound, job.Running, reason, waits,
			duration.HumanDuration(l.At.Sub(job.CreationTimestamp.Time)), job.Queue, job.Priority, strings.Join(Places(job.Topology), "; "), job.Message)
	}
	for _, namespace := range slices.Sorted(maps.Keys(totals)) {
		all, counts := 0, ""
		for _, standing := range []string{"waiting", "degraded", "running", "ended"} {
			if n := totals[namespace][standing]; n > 0 {
				all, counts = all+n, fmt.Sprintf("%s, %d %s", counts, n, standing)
			}
		}
		jobs := "jobs"
		if all == 1 {
			jobs = "job"
		}
		t.note("%s: %d %s%s", namespace, all, jobs, counts)
	}
	if len(l.Items) == 0 {
		t.note("No jobs found.")
	}
	return t
}

// title is the name of a job, with its kind where it is no PodGroup of ours, and with its owner.
func (j *Job) title() string {
	name := j.Name
	if j.Source == model.SourcePod.Kind() || strings.Contains(j.Source, ".") { // of another project
		name = strings.ToLower(j.Source) + "/" + name
	}
	if owner := j.Owner(); owner != "" {
		name += " (" + owner + ")"
	}
	return name
}

// standing is the phase of a job in a word for many phases.
func (j *Job) standing() string {
	switch j.Phase {
	case "", v1alpha1.PodGroupPending:
		return "waiting"
	case v1alpha1.PodGroupDegraded:
		return "degraded"
	case v1alpha1.PodGroupSucceeded, v1alpha1.PodGroupFailed:
		return "ended"
	}
	return "running"
}

// headers are the columns of resources.
func headers(resources []corev1.ResourceName) (names []string) {
	for _, name := range resources {
		names = append(names, shortName(name))
	}
	return names
}

// shortName leaves out the domain of a resource: nvidia.com/gpu is gpu.
func shortName(name corev1.ResourceName) string {
	text := string(name)
	return text[strings.LastIndex(text, "/")+1:]
}

// amount writes a quantity in short form: memory in Gi with one digit, where it is not whole.
func amount(name corev1.ResourceName, quantity resource.Quantity) string {
	const gi = 1 << 30
	bytes := name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
	if value := quantity.Value(); bytes && (value >= gi || value <= -gi) && value%gi != 0 {
		return fmt.Sprintf("%.1fGi", float64(value)/gi)
	}
	return quantity.String()
}

// amounts writes a list of resources, without the number of pods.
func amounts(list corev1.ResourceList) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if name != corev1.ResourcePods {
			texts = append(texts, amount(name, list[name])+" "+string(name))
		}
	}
	return strings.Join(texts, " ")
}

// short rounds a duration to three digits.
func short(d time.Duration) string {
	unit := time.Microsecond
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}
