package sources

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// native is the PodGroup of Kubernetes, which pods name in a field. API servers serve it only where it is turned on.
var native = &Source{
	name: "kubernetes", // without marks: the field is kept of every pod
	of: func(pod *corev1.Pod) (Membership, bool) {
		group := pod.Spec.SchedulingGroup
		if group == nil || group.PodGroupName == nil || *group.PodGroupName == "" || len(*group.PodGroupName) > validation.DNS1123SubdomainMaxLength {
			return Membership{}, false
		}
		return Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: *group.PodGroupName, Source: model.SourceNative}}, true
	},
	watch: &Watch{
		Source:    model.SourceNative,
		Resource:  schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups"),
		Decode:    decodeNative,
		IsBuiltIn: true,
		Status:    nativeStatus, Subresource: true,
	},
}

// decodeNative reads one. One that is being deleted counts: a finalizer keeps it until its pods have ended. Its priority is not
// read: of a group without a class it is zero whatever its pods have. A basic one whose pods share a domain is a gang of one:
// each of them starts when it fits, in that domain.
func decodeNative(object *unstructured.Unstructured) *Spec {
	f := fields{object: object.Object}
	spec := &Spec{
		ObjectMeta: Identity(object), Source: model.SourceNative, MinMember: 1,
		PriorityClassName: f.text("spec", "priorityClassName"),
		NeverPreempts:     f.text("spec", "preemptionPolicy") == string(corev1.PreemptNever),
	}
	basic, gang := f.value("spec", "schedulingPolicy", "basic") != nil, f.value("spec", "schedulingPolicy", "gang") != nil
	switch {
	case basic == gang:
		f.contradict("spec.schedulingPolicy must have one of basic and gang")
	case gang:
		minCount := f.integer("spec", "schedulingPolicy", "gang", "minCount")
		if minCount < 1 {
			f.contradict("spec.schedulingPolicy.gang.minCount is %d, it must be at least 1", minCount)
		}
		spec.MinMember = max(1, minCount)
	}
	spec.Topology = f.nativeTopology()
	spec.NoGang = basic && spec.Topology == nil && f.contradiction == ""
	var remarks []string
	for _, name := range []string{"parentCompositePodGroupName", "resourceClaims"} {
		if f.value("spec", name) != nil {
			remarks = append(remarks, name+" is not followed")
		}
	}
	for _, name := range f.keys("spec", "schedulingConstraints") {
		if name != "topology" {
			remarks = append(remarks, fmt.Sprintf("schedulingConstraints.%s is not followed", model.Brief(name, maxQuoted)))
		}
	}
	spec.EndsTogether = f.value("spec", "disruptionMode", "all") != nil
	if spec.EndsTogether && basic {
		spec.EndsTogether = false
		remarks = append(remarks, "disruptionMode is not followed: a basic group is no gang, and each pod may be evicted alone")
	}
	spec.Remark, spec.Contradiction = strings.Join(remarks, "; "), f.contradiction
	status := fields{object: object.Object}
	spec.Shown = status.condition(schedulingv1beta1.PodGroupInitiallyScheduled)
	spec.Shown.HasStatus = status.value("status") != nil
	return spec
}

// nativeTopology reads the label whose value the nodes of all members have in common; nil when there is none. There is one at
// most, and nothing is known of it but its key: two of them may mean anything.
func (f *fields) nativeTopology() (topology []model.TopologyConstraint) {
	list := f.list("spec", "schedulingConstraints", "topology")
	if len(list) > 1 {
		f.contradict("spec.schedulingConstraints.topology has %d entries, at most 1 is supported", len(list))
		return nil
	}
	for _, entry := range list {
		for _, name := range entry.keys() {
			if name != "key" {
				entry.contradict("%s is not known", model.Brief(name, maxQuoted))
			}
		}
		key, _ := entry.value("key").(string)
		if len(validation.IsQualifiedName(key)) > 0 {
			entry.contradict("key is %q, which cannot be the key of a label", model.Brief(key, maxQuoted))
			return nil
		}
		topology = []model.TopologyConstraint{{Level: model.LabelLevel(key)}}
	}
	return topology
}

// nativeStatus is that of a group of Kubernetes, as kube-scheduler writes it (pkg/scheduler/schedule_one_podgroup.go): nothing
// before a place was looked for, which takes all members that are needed, then whether there was one. Once it was placed, that
// stays, also when its members end.
func nativeStatus(spec *Spec, job *model.Job, refusal *model.Refusal) Shown {
	wanted := spec.Shown
	switch {
	case job == nil || wanted.Status == string(corev1.ConditionTrue):
	case job.Invalid == nil && job.FirstUnmetMinimum((*model.Task).IsBound) == nil:
		wanted.say(schedulingv1beta1.PodGroupInitiallyScheduled, corev1.ConditionTrue, v1alpha1.ConditionScheduled, minimumIsBound, job.Warning)
	case refusal == nil || job.Whole:
	default:
		reason := schedulingv1beta1.PodGroupReasonUnschedulable
		switch refusal.Code {
		case model.NotEnoughMembers, model.SchedulingGated:
			if wanted.Type == "" {
				return wanted
			}
		case model.InvalidGroup, model.InvalidRequest, model.Malformed, model.Quarantined, model.CycleFailed:
			reason = schedulingv1beta1.PodGroupReasonSchedulerError
		}
		wanted.say(schedulingv1beta1.PodGroupInitiallyScheduled, corev1.ConditionFalse, reason, refusal.String(), job.Warning)
	}
	return wanted
}
