package sources

import (
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// owned is a kind of objects that own pods and for which no group object is needed: what they say of their pods is enough. Pods
// are known by labels, since between the object and its pods there may be others.
type owned struct {
	name     string
	source   model.Source
	resource schema.GroupVersionResource
	// job and role are the labels with the name of the object and with the role, empty when there are none; is reports whether the
	// pod is of this kind.
	job, role string
	is        func(pod *corev1.Pod) bool
	// marks are what is read beside these, index the label with the number of a pod.
	marks []string
	index string
	// isCaster reports that role is read in a group of another source, too.
	isCaster bool
	// member reads what the marks of the kind say of any pod; nil reads nothing. owns, setting and lacking are as in Watch.
	member  func(pod *corev1.Pod, m *model.Member)
	owns    func(owner *metav1.OwnerReference) bool
	setting string
	lacking func(job *model.Job) string
	// decode reads the roles of an object and how many members start together.
	decode func(f *fields, spec *Spec)
}

func (o *owned) Name() string { return o.name }

func (o *owned) Marks() Marks {
	labels := append([]string{o.job}, o.marks...)
	if o.role != "" {
		labels = append(labels, o.role)
	}
	return Marks{Labels: labels, Index: o.index}
}

func (o *owned) Of(pod *corev1.Pod) (Membership, bool) {
	name := pod.Labels[o.job]
	if name == "" || !o.is(pod) {
		return Membership{}, false
	}
	return Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: name, Source: o.source}, Role: pod.Labels[o.role]}, true
}

func (o *owned) Watches() []Watch {
	watch := Watch{Source: o.source, Resource: o.resource, Owns: o.owns, Setting: o.setting, Lacking: o.lacking}
	watch.Decode = func(object *unstructured.Unstructured) *Spec {
		f := fields{object: object.Object}
		spec := &Spec{ObjectMeta: Identity(object), Source: o.source}
		o.decode(&f, spec)
		if text, ok := object.GetAnnotations()[v1alpha1.AnnotationMinMember]; ok {
			spec.MinMember, spec.Roles, spec.Done = f.override(text), nil, nil
		}
		spec.readTopology(&f, object.GetAnnotations())
		if spec.NoGang = o.source == model.SourceJob && spec.MinMember == 0 && f.contradiction == ""; spec.NoGang {
			spec.Left = 0 // what is not read is no change of it
		}
		spec.MinMember, spec.Contradiction = max(1, spec.MinMember), f.contradiction
		return spec
	}
	return []Watch{watch}
}

func (o *owned) Member(pod *corev1.Pod, m *model.Member) {
	if o.member != nil {
		o.member(pod, m)
	}
}

func (o *owned) RoleOf(pod *corev1.Pod) string {
	if !o.isCaster {
		return ""
	}
	return pod.Labels[o.role]
}

// override reads the annotation on an object that says how many of its pods start together; 0 is as 1: each starts when it fits.
func (f *fields) override(text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		f.contradict("annotation %s is %q, it must be a whole number from 0 up", v1alpha1.AnnotationMinMember, model.Brief(text, maxQuoted))
	}
	return int32(n)
}

// addRole adds a role, and its members to those that start together. One that needs none is left out.
func (s *Spec) addRole(f *fields, role model.Role, members int64) {
	if members <= 0 {
		return
	}
	if members > math.MaxInt32-int64(s.MinMember) {
		f.contradict("the members of all roles are more than %d", math.MaxInt32)
		return
	}
	role.MinMember = int32(members)
	s.MinMember += role.MinMember
	s.Roles = append(s.Roles, role)
}

// sortRoles sorts the roles by name, as a job has them. Of two with one name the minima are added up.
func (s *Spec) sortRoles() {
	slices.SortStableFunc(s.Roles, func(a, b model.Role) int { return strings.Compare(a.Name, b.Name) })
	for i := len(s.Roles) - 1; i > 0; i-- {
		if s.Roles[i].Name == s.Roles[i-1].Name {
			s.Roles[i-1].MinMember += s.Roles[i].MinMember
			s.Roles = slices.Delete(s.Roles, i, i+1)
		}
	}
}

// foreignRole returns the role of a pod in a group object of its operator: ours, or by the labels of those whose roles may be
// late.
func foreignRole(pod *corev1.Pod) string {
	role := pod.Labels[v1alpha1.LabelRole]
	for i := 0; i < len(casters) && role == ""; i++ {
		role = casters[i].RoleOf(pod)
	}
	return role
}

// labelled reports whether a label of the pod has the value.
func labelled(key, value string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Labels[key] == value }
}
