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
// are known by labels, since between the object and its pods there may be others. A pod is asked for its job and role alone (of);
// the minimum and the roles are read from each version of the object (read), and FillForeign joins both.
type owned struct {
	name     string
	kind     model.Source
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

// source returns the source of the kind.
func (o owned) source() *Source {
	source := &Source{name: o.name, member: o.member, marks: Marks{Labels: append([]string{o.job}, o.marks...), Index: o.index}}
	if o.role != "" {
		source.marks.Labels = append(source.marks.Labels, o.role)
	}
	if o.isCaster {
		source.roleOf = func(pod *corev1.Pod) string { return pod.Labels[o.role] }
	}
	source.of = func(pod *corev1.Pod) (Membership, bool) {
		name := pod.Labels[o.job]
		if name == "" || !o.is(pod) {
			return Membership{}, false
		}
		return Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: name, Source: o.kind}, Role: pod.Labels[o.role]}, true
	}
	source.watch = &Watch{
		Source: o.kind, Resource: o.resource, Owns: o.owns, Setting: o.setting, Lacking: o.lacking, Decode: o.read,
	}
	return source
}

// read reads an object.
func (o owned) read(object *unstructured.Unstructured) *Spec {
	f := fields{object: object.Object}
	spec := &Spec{ObjectMeta: Identity(object), Source: o.kind}
	o.decode(&f, spec)
	if text, ok := object.GetAnnotations()[v1alpha1.AnnotationMinMember]; ok {
		spec.MinMember, spec.Roles, spec.Done = f.override(text), nil, nil
	}
	spec.readTopology(&f, object.GetAnnotations())
	if spec.NoGang = o.kind == model.SourceJob && spec.MinMember == 0 && f.contradiction == ""; spec.NoGang {
		spec.Left = 0 // what is not read is no change of it
	}
	spec.MinMember, spec.Contradiction = max(1, spec.MinMember), f.contradiction
	return spec
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

// labelled reports whether a label of the pod has the value.
func labelled(key, value string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Labels[key] == value }
}
