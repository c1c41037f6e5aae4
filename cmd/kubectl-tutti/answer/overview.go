package answer

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// Overview is how all jobs stand.
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
	// Kind is PodGroup or Pod.
	Kind string `json:"kind"`
	// Phase is the PodGroup's; empty for one that does not exist. Pods that are shown are pending.
	Phase   string `json:"phase"`
	Needs   int    `json:"needs"`
	Members int    `json:"members"`
	Bound   int    `json:"bound"`
	Running int    `json:"running"`
	// Reason and Message are the scheduler's; both are empty when it has said nothing.
	Reason         string     `json:"reason,omitempty"`
	Message        string     `json:"message,omitempty"`
	SmallestChange string     `json:"smallestChange,omitempty"`
	WaitingSince   *time.Time `json:"waitingSince,omitempty"`
	Created        time.Time  `json:"created"`
}

// Look counts PodGroups, and the pods without a node that have none: those of schedulers of the given names.
func Look(groups []v1alpha1.PodGroup, pods []corev1.Pod, schedulers []string) *Overview {
	o := &Overview{Namespaces: []Totals{}, Jobs: []Job{}}
	known := map[[2]string]bool{}
	for i := range groups {
		known[[2]string{groups[i].Namespace, groups[i].Name}] = true
		o.Jobs = append(o.Jobs, jobOf(&groups[i]))
	}
	lost := map[[2]string]int{}
	for i := range pods {
		pod := &pods[i]
		group := GroupName(pod)
		if pod.Spec.NodeName != "" || !slices.Contains(schedulers, pod.Spec.SchedulerName) || known[[2]string{pod.Namespace, group}] {
			continue
		}
		if group == "" {
			o.Jobs = append(o.Jobs, jobOfPod(pod))
			continue
		}
		key := [2]string{pod.Namespace, group}
		at, met := lost[key]
		if !met {
			at = len(o.Jobs)
			lost[key] = at
			job := jobOfPod(pod)
			job.Name, job.Kind, job.Phase, job.Needs, job.Members = group, "PodGroup", "", 0, 0
			o.Jobs = append(o.Jobs, job)
		}
		o.Jobs[at].Members++
	}
	slices.SortFunc(o.Jobs, func(a, b Job) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	for i := range o.Jobs {
		o.count(&o.Jobs[i])
	}
	return o
}

func jobOf(group *v1alpha1.PodGroup) Job {
	status := &group.Status
	job := Job{
		Namespace: group.Namespace, Name: group.Name, Kind: "PodGroup", Phase: string(status.Phase),
		Needs: int(group.Spec.MinMember), Members: int(status.Members), Bound: int(status.Placed), Running: int(status.Running),
		SmallestChange: status.SmallestChange, WaitingSince: at(status.WaitingSince), Created: group.CreationTimestamp.UTC(),
	}
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScheduled)
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
		Namespace: pod.Namespace, Name: pod.Name, Kind: "Pod", Phase: string(v1alpha1.PodGroupPending), Needs: 1, Members: 1,
		Created: pod.CreationTimestamp.UTC(),
	}
	if condition := waits(pod); condition != nil {
		job.Reason, job.Message = condition.Reason, condition.Message
	}
	return job
}

// Waits tells whether the job has not started.
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
