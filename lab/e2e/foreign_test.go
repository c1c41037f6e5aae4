package e2e

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/harness"
)

// foreign are meant to get into the queues of others, or to change them.
func foreign() []attack {
	of := func(namespace string) *v1alpha1.Queue {
		return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: v1alpha1.QueueSpec{
			Guarantee:         corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		}}
	}
	inQueue := harness.PodLabels(map[string]string{v1alpha1.LabelQueue: "theirs"})
	return []attack{
		{name: "a queue of its own", refused: always, try: func(s *siege) error { return s.own.Create(s.Context(), of(attackers)) }},
		{name: "the limit of a queue of others", refused: always, try: func(s *siege) error { return s.merge(of(tenants), `{"spec":{"limit":{"cpu":"0"}}}`) }},
		{name: "the status of a queue of others", refused: always, try: func(s *siege) error {
			return s.merge(of(tenants), `{"status":{"lastStart":"2001-01-01T00:00:00.000000Z"}}`, "status")
		}},
		{name: "a namespace that names a queue", refused: always, try: func(s *siege) error {
			return s.merge(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: attackers}}, `{"metadata":{"labels":{"scheduling.tutti.dev/queue":"theirs"}}}`)
		}},
		{name: "jobs in a queue of others", try: func(s *siege) error {
			theirs := of(tenants)
			s.lab.Create(s, theirs)
			g := group(attackers, "named", 2)
			g.Spec.Queue = theirs.Name
			err := errors.Join(s.create(g), s.create(members(attackers, "named", "", 2)...),
				s.create(s.alone("labeled", inQueue)), s.create(group(attackers, "moved", 8)), s.merge(group(attackers, "moved", 8), `{"spec":{"queue":"theirs"}}`))
			if err == nil {
				s.lab.Eventually(s, func() error {
					return errors.Join(s.waiting(attackers, "named-0", "QueueNotAllowed"),
						s.waiting(attackers, "labeled", `queue "theirs" does not take jobs of namespace "attackers"`))
				})
			}
			s.clear(attackers)
			return errors.Join(err, s.lab.Client.Delete(s.Context(), theirs))
		}},
		{name: "a pod that runs, in a queue of others", refused: always, try: func(s *siege) error {
			runs := s.alone("runs")
			if err := s.create(runs); err != nil {
				s.Fatal(err)
			}
			s.lab.Eventually(s, func() error {
				if err := s.lab.Client.Get(s.Context(), client.ObjectKeyFromObject(runs), runs); err != nil || runs.Spec.NodeName != "" {
					return err
				}
				return errors.New("it has no node")
			})
			return s.merge(runs, `{"metadata":{"labels":{"scheduling.tutti.dev/queue":"theirs"}}}`)
		}},
	}
}
