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

// row adds the row of an item, a pointer to one of the types of this package. It refers to the item by its name.
func (t *Table) row(item metav1.Object, cells ...any) {
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

// Table has what is idle of what there is of each resource.
func (l *NodeList) Table() *Table {
	resources, isolatedAny := l.resources()
	header := append([]string{"Name", "Pods"}, headers(resources)...)
	if isolatedAny {
		header = append(header, "Isolated")
	}
	t := newTable(l.ListMeta, append(header, "Nominated", "Reserved", "Remark", "+Releasing", "+Free CPUs", "+Kept")...)
	for i := range l.Items {
		item := &l.Items[i]
		row := []any{item.Name, item.Pods}
		for _, name := range resources {
			if all, has := item.Allocatable[name]; has {
				row = append(row, amount(name, item.Idle[name])+"/"+amount(name, all))
			} else {
				row = append(row, "-")
			}
		}
		free := "-"
		if isolatedAny && item.Isolated == nil {
			row = append(row, "-")
		} else if isolatedAny {
			row = append(row, fmt.Sprintf("%d/%d", item.Isolated.Free, item.Isolated.Total))
			free = cmp.Or(item.Isolated.FreeCPUs, "-")
		}
		t.row(item, append(row, jobsOf(item.Nominated), jobsOf(item.Reserved), item.remark(), amounts(item.Releasing), free,
			keptFor(slices.Concat(item.Nominated, item.Reserved)))...)
	}
	if len(l.Items) == 0 {
		t.note("The scheduler knows no nodes.")
	}
	return t
}

// resources returns the resources that have a column: CPU and memory, and those that not every node has.
func (l *NodeList) resources() (names []corev1.ResourceName, isolatedAny bool) {
	names = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	none := append(slices.Clone(names), corev1.ResourcePods, corev1.ResourceEphemeralStorage, isolated.Resource)
	more := map[corev1.ResourceName]bool{}
	for i := range l.Items {
		isolatedAny = isolatedAny || l.Items[i].Isolated != nil
		for name := range l.Items[i].Allocatable {
			if !slices.Contains(none, name) {
				more[name] = true
			}
		}
	}
	return append(names, slices.Sorted(maps.Keys(more))...), isolatedAny
}

// remark says why the node takes no pods.
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
	return cmp.Or(strings.Join(remarks, "; "), "-")
}

// jobsOf lists the jobs that capacity is kept for.
func jobsOf(kept []Kept) string {
	var jobs []string
	for i := range kept {
		if !slices.Contains(jobs, kept[i].Job) {
			jobs = append(jobs, kept[i].Job)
		}
	}
	return cmp.Or(strings.Join(jobs, ", "), "-")
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
	return cmp.Or(strings.Join(texts, "; "), "-")
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

// Table has the tree of queues: for each resource what a queue holds of its limit.
func (l *QueueList) Table() *Table {
	resources := l.resources()
	header := append([]string{"Name", "State", "Running", "Waiting"}, headers(resources)...)
	t := newTable(l.ListMeta, append(header, "Share", "Guarantee", "Borrowed", "+Weight", "+Turn", "+Waiting For", "+Message")...)
	state := "Active"
	if l.Paused != "" {
		state = "Paused"
		t.note("Paused: no job starts, of any queue: %s", l.Paused)
	}
	guarantees, guaranteed := l.guarantees()
	depths := map[string]int{}
	for i := range l.Items {
		queue := &l.Items[i]
		if above, ok := depths[queue.Parent]; ok {
			depths[queue.Name] = above + 1
		} else {
			depths[queue.Name] = 0
		}
		row := []any{strings.Repeat("  ", depths[queue.Name]) + queue.Name, cmp.Or(queue.Inactive, state), queue.RunningJobs, queue.WaitingJobs}
		for _, name := range resources {
			limit := "-"
			if most, limited := queue.Limit[name]; limited {
				limit = amount(name, most)
			}
			row = append(row, amount(name, queue.Used[name])+"/"+limit)
		}
		guarantee, messages := amounts(queue.Guarantee), []string{}
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
		turn := "-"
		if queue.Turn > 0 {
			turn = fmt.Sprint(queue.Turn)
		}
		t.row(queue, append(row, amounts(queue.Share), guarantee, amounts(borrowed(queue, guarantees[queue.Name], guaranteed)),
			queue.Weight, turn, cmp.Or(strings.Join(waiting, ", "), "-"), cmp.Or(strings.Join(messages, "; "), "-"))...)
	}
	if len(l.Items) == 0 {
		t.note("There are no Queues: all jobs are in one queue without a limit, regardless of the queue that they name.")
	}
	for _, job := range l.Misplaced {
		t.note("No queue takes %s", job)
	}
	return t
}

// resources returns the resources that have a column: CPU and memory, and those that a limit or a guarantee names, or that jobs
// hold or ask for. Each pod is one of the resource pods, which has a column only where it is limited.
func (l *QueueList) resources() []corev1.ResourceName {
	first := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	more := map[corev1.ResourceName]bool{}
	for i := range l.Items {
		queue := &l.Items[i]
		for _, list := range []corev1.ResourceList{queue.Used, queue.Share, queue.Demand, queue.Asked, queue.Limit, queue.Guarantee} {
			for name := range list {
				more[name] = true
			}
		}
	}
	limitsPods := slices.ContainsFunc(l.Items, func(queue Queue) bool {
		_, limited := queue.Limit[corev1.ResourcePods]
		_, guaranteed := queue.Guarantee[corev1.ResourcePods]
		return limited || guaranteed
	})
	maps.DeleteFunc(more, func(name corev1.ResourceName, _ bool) bool {
		return slices.Contains(first, name) || name == corev1.ResourcePods && !limitsPods
	})
	return append(first, slices.Sorted(maps.Keys(more))...)
}

// guarantees returns what is guaranteed to each queue, by name: its own guarantee, or the sum of those right below it where
// this is more; and which resources are guaranteed to any queue.
func (l *QueueList) guarantees() (guarantees map[string]corev1.ResourceList, guaranteed map[corev1.ResourceName]bool) {
	guarantees, guaranteed = map[string]corev1.ResourceList{}, map[corev1.ResourceName]bool{}
	below := map[string]corev1.ResourceList{}
	for i := range slices.Backward(l.Items) { // those below come first
		queue := &l.Items[i]
		all := corev1.ResourceList{}
		maps.Copy(all, below[queue.Name])
		for name, own := range queue.Guarantee {
			guaranteed[name] = true
			if sum := all[name]; own.Cmp(sum) > 0 {
				all[name] = own
			}
		}
		guarantees[queue.Name] = all
		if below[queue.Parent] == nil {
			below[queue.Parent] = corev1.ResourceList{}
		}
		for name, amount := range all {
			sum := below[queue.Parent][name].DeepCopy()
			sum.Add(amount)
			below[queue.Parent][name] = sum
		}
	}
	return guarantees, guaranteed
}

// borrowed returns what the queue holds beyond what is guaranteed to it, of the resources that are guaranteed to any queue.
func borrowed(queue *Queue, guarantee corev1.ResourceList, guaranteed map[corev1.ResourceName]bool) corev1.ResourceList {
	beyond := corev1.ResourceList{}
	for name, held := range queue.Used {
		if held = held.DeepCopy(); guaranteed[name] {
			if held.Sub(guarantee[name]); held.Sign() > 0 {
				beyond[name] = held
			}
		}
	}
	return beyond
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
			cycle.Evictions, cycle.Nominations, cycle.Reservations, cycle.Panics, strings.Join(parts, ", "), cmp.Or(strings.Join(decisions, "; "), "-"))
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
		config, refused := &l.Items[i], "-"
		if config.Refused != nil {
			refused = config.Refused.At.UTC().Format(time.RFC3339)
			t.note("Refused, revision %s:", cmp.Or(config.Refused.Revision, "unknown"))
			t.Notes = append(t.Notes, strings.Split(config.Refused.Error, "\n")...)
		}
		t.row(config, config.Name, config.Source, cmp.Or(config.Revision, "-"), config.Since.UTC().Format(time.RFC3339), cmp.Or(config.Paused, "-"),
			refused)
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
	totals, namespaces := map[string]*jobTotals{}, []string{}
	for i := range l.Items {
		job := &l.Items[i]
		if totals[job.Namespace] == nil {
			totals[job.Namespace], namespaces = &jobTotals{}, append(namespaces, job.Namespace)
		}
		totals[job.Namespace].count(job)
		name, needs, waits, reason := job.Name, "?", "-", cmp.Or(job.Reason, "-")
		if job.Source == model.SourcePod.Kind() || strings.Contains(job.Source, ".") { // of another project
			name = strings.ToLower(job.Source) + "/" + name
		}
		if owner := job.Owner(); owner != "" {
			name += " (" + owner + ")"
		}
		if job.Needs > 0 {
			needs = fmt.Sprint(job.Needs)
		}
		if job.WaitingSince != nil {
			waits = duration.HumanDuration(l.At.Sub(job.WaitingSince.Time))
		}
		if !job.Waits() && reason == v1alpha1.ConditionScheduled {
			reason = "-" // the phase is enough
		}
		t.row(job, name, cmp.Or(string(job.Phase), "-"), fmt.Sprintf("%d/%s", job.Has, needs), job.Bound, job.Running, reason, waits,
			duration.HumanDuration(l.At.Sub(job.CreationTimestamp.Time)), cmp.Or(job.Queue, "-"), job.Priority,
			cmp.Or(strings.Join(Places(job.Topology), "; "), "-"), cmp.Or(job.Message, "-"))
	}
	for _, namespace := range namespaces {
		t.note("%s: %s", namespace, totals[namespace])
	}
	if len(l.Items) == 0 {
		t.note("No jobs found.")
	}
	return t
}

// jobTotals counts jobs: all, and those that wait, have lost members, run and have ended.
type jobTotals struct{ all, waiting, degraded, running, ended int }

func (t *jobTotals) count(job *Job) {
	t.all++
	switch job.Phase {
	case "", v1alpha1.PodGroupPending:
		t.waiting++
	case v1alpha1.PodGroupDegraded:
		t.degraded++
	case v1alpha1.PodGroupSucceeded, v1alpha1.PodGroupFailed:
		t.ended++
	default:
		t.running++
	}
}

// String returns "3 jobs, 1 waiting, 2 running".
func (t *jobTotals) String() string {
	counts := []string{fmt.Sprintf("%d jobs", t.all)}
	if t.all == 1 {
		counts[0] = "1 job"
	}
	for _, count := range []struct {
		n    int
		what string
	}{{t.waiting, "waiting"}, {t.degraded, "degraded"}, {t.running, "running"}, {t.ended, "ended"}} {
		if count.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	return strings.Join(counts, ", ")
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
	return cmp.Or(strings.Join(texts, " "), "-")
}

// short rounds a duration to three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
