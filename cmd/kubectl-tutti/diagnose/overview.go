package diagnose

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
)

// Overview is the state of all jobs.
type Overview struct {
	Namespaces []Totals `json:"namespaces"`
	// Jobs are by namespace and name.
	Jobs []Job `json:"jobs"`
}

// Totals counts the jobs of one namespace.
type Totals struct {
	Namespace string `json:"namespace"`
	Jobs      int    `json:"jobs"`
	// Waiting have not started, Degraded have lost members, Running have started, Ended have ended.
	Waiting  int `json:"waiting"`
	Degraded int `json:"degraded"`
	Running  int `json:"running"`
	Ended    int `json:"ended"`
}

// Job is one line of the overview.
type Job struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Kind is PodGroup, ImplicitGroup, Pod, or that of a group of another project: PodGroup.scheduling.x-k8s.io.
	Kind string `json:"kind"`
	// Owner is the controller of the pods of an implicit or a foreign group, such as Job/train; empty for other kinds.
	Owner string `json:"owner,omitempty"`
	// Phase is the PodGroup's; empty for one that does not exist. Pods in the overview are pending.
	Phase   string `json:"phase"`
	Needs   int    `json:"needs"`
	Members int    `json:"members"`
	Bound   int    `json:"bound"`
	Running int    `json:"running"`
	// Queue is the Queue that a PodGroup is in; empty where the scheduler has written none, and for other kinds.
	Queue string `json:"queue,omitempty"`
	// Reason and Message are the scheduler's; both are empty when it has reported nothing.
	Reason       string     `json:"reason,omitempty"`
	Message      string     `json:"message,omitempty"`
	WaitingSince *time.Time `json:"waitingSince,omitempty"`
	Created      time.Time  `json:"created"`
	// Topology is in which domains its members are; nil where the scheduler has said nothing of it.
	Topology []v1alpha1.TopologyStatus `json:"topology,omitempty"`
}

// Collect counts PodGroups; groups without an object; and the pods without a node and without a group, of the given
// schedulers. It needs the pods that wait and those that name a group without an object; more do no harm.
func Collect(podGroups []v1alpha1.PodGroup, pods []corev1.Pod, schedulers []string, foreign ...*sources.Spec) *Overview {
	o := &Overview{Namespaces: []Totals{}, Jobs: []Job{}}
	for i := range podGroups {
		o.Jobs = append(o.Jobs, jobOf(&podGroups[i]))
	}
	namespaces := map[string]*Namespace{}
	for i := range podGroups {
		of(namespaces, podGroups[i].Namespace).Groups = append(of(namespaces, podGroups[i].Namespace).Groups, podGroups[i])
	}
	for _, spec := range foreign {
		of(namespaces, spec.Namespace).Foreign = append(of(namespaces, spec.Namespace).Foreign, spec)
	}
	for i := range pods {
		pod := &pods[i]
		switch {
		case !slices.Contains(schedulers, pod.Spec.SchedulerName):
		case of(namespaces, pod.Namespace).groupName(pod) != "":
			of(namespaces, pod.Namespace).Pods = append(of(namespaces, pod.Namespace).Pods, *pod)
		case pod.Spec.NodeName == "":
			o.Jobs = append(o.Jobs, jobOfPod(pod))
		}
	}
	for _, namespace := range namespaces {
		o.Jobs = append(o.Jobs, namespace.withoutObjects()...)
	}
	slices.SortFunc(o.Jobs, func(a, b Job) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Owner, b.Owner))
	})
	for i := range o.Jobs {
		o.count(&o.Jobs[i])
	}
	return o
}

func of(namespaces map[string]*Namespace, name string) *Namespace {
	if namespaces[name] == nil {
		namespaces[name] = &Namespace{Name: name}
	}
	return namespaces[name]
}

// withoutObjects returns the jobs that are groups without an object, and those whose PodGroup does not exist.
func (n *Namespace) withoutObjects() []Job {
	var jobs []Job
	for _, name := range n.named() {
		gangs := n.gangs(name)
		for i := range gangs {
			if g := &gangs[i]; g.group == nil && (g.byPods || slices.ContainsFunc(g.pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })) {
				jobs = append(jobs, jobOfGang(n, g))
			}
		}
	}
	return jobs
}

func jobOfGang(namespace *Namespace, g *gang) Job {
	a := readGang(namespace, g)
	job := Job{
		Namespace: namespace.Name, Name: g.name, Kind: a.Kind, Owner: a.Owner, Needs: a.Members.Needs, Members: a.Members.Exist,
		Bound: a.Members.Bound, Running: a.Members.Running, Created: g.created().UTC(),
	}
	for _, pod := range g.pods {
		if condition := waits(pod); condition != nil && (!g.byPods || pod == g.reportingPod()) {
			job.Reason, job.Message = condition.Reason, condition.Message
			break
		}
	}
	switch {
	case !g.byPods: // its PodGroup does not exist yet
	case a.State == Degraded:
		job.Phase = string(v1alpha1.PodGroupDegraded)
	case a.State == Started && a.Members.Running+a.Members.Succeeded < a.Members.Needs:
		job.Phase = string(v1alpha1.PodGroupStarting)
	case a.State == Started:
		job.Phase = string(v1alpha1.PodGroupRunning)
	case a.State == Ended && len(a.Members.Failed) > 0:
		job.Phase = string(v1alpha1.PodGroupFailed)
	case a.State == Ended:
		job.Phase = string(v1alpha1.PodGroupSucceeded)
	default:
		job.Phase = string(v1alpha1.PodGroupPending)
	}
	return job
}

func jobOf(group *v1alpha1.PodGroup) Job {
	status := &group.Status
	job := Job{
		Namespace: group.Namespace, Name: group.Name, Kind: kindPodGroup, Phase: string(status.Phase),
		Needs: int(group.Spec.MinMember), Members: int(status.Members), Bound: int(status.Placed), Running: int(status.Running),
		WaitingSince: at(status.WaitingSince), Created: group.CreationTimestamp.UTC(),
	}
	job.Topology, job.Queue = status.Topology, status.Queue
	condition := sources.Explanation(status.Conditions)
	if condition != nil {
		job.Reason, job.Message = condition.Reason, condition.Message
	}
	if job.Phase == "" {
		job.Phase = string(v1alpha1.PodGroupPending)
	}
	return job
}

func jobOfPod(pod *corev1.Pod) Job {
	job := Job{
		Namespace: pod.Namespace, Name: pod.Name, Kind: kindPod, Phase: string(v1alpha1.PodGroupPending), Needs: 1, Members: 1,
		Created: pod.CreationTimestamp.UTC(),
	}
	if condition := waits(pod); condition != nil {
		job.Reason, job.Message = condition.Reason, condition.Message
	}
	return job
}

// Waits reports whether the job has not started.
func (j *Job) Waits() bool { return j.Phase == "" || j.Phase == string(v1alpha1.PodGroupPending) }

func (o *Overview) count(job *Job) {
	last := len(o.Namespaces) - 1
	if last < 0 || o.Namespaces[last].Namespace != job.Namespace {
		o.Namespaces = append(o.Namespaces, Totals{Namespace: job.Namespace})
		last++
	}
	totals := &o.Namespaces[last]
	totals.Jobs++
	switch v1alpha1.PodGroupPhase(job.Phase) {
	case "", v1alpha1.PodGroupPending:
		totals.Waiting++
	case v1alpha1.PodGroupDegraded:
		totals.Degraded++
	case v1alpha1.PodGroupSucceeded, v1alpha1.PodGroupFailed:
		totals.Ended++
	default:
		totals.Running++
	}
}
