package e2e

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/pkg/model"
)

// The attempts of this file are about the contested node: the account has pods there, and the other tenant waits for it.

// year is a grace in seconds.
const year = 365 * 24 * 3600

// there are the options of a pod with so much CPU for the contested node.
func there(amount string, more ...harness.PodOption) []harness.PodOption {
	return append([]harness.PodOption{cpu(amount), onPool(contested)}, more...)
}

// condition returns the condition PodScheduled of a pod.
func (s *siege) condition(namespace, name string) (*corev1.PodCondition, error) {
	var pod corev1.Pod
	if err := s.lab.Client.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
		return nil, err
	}
	if c := model.PodScheduled(&pod); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("pod %s has no condition PodScheduled", name)
}

// waiting is nil when a pod waits and says so with these words.
func (s *siege) waiting(namespace, name, words string) error {
	c, err := s.condition(namespace, name)
	if err == nil && (c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, words)) {
		err = fmt.Errorf("pod %s says %+v, want it to wait with %q", name, c, words)
	}
	return err
}

// onNode is nil when pods of a namespace are on nodes.
func (s *siege) onNode(namespace string, names ...string) error {
	var all []error
	for _, name := range names {
		c, err := s.condition(namespace, name)
		if err == nil && c.Status != corev1.ConditionTrue {
			err = fmt.Errorf("pod %s has no node: %s", name, c.Message)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// delete deletes pods without a grace, as the administrator.
func (s *siege) delete(namespace string, names ...string) {
	s.Helper()
	for _, name := range names {
		err := s.lab.Client.Delete(s.Context(), s.lab.Pod(namespace, name), client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil {
			s.Fatal(err)
		}
	}
}

// must wants something to become true, and says otherwise what does not hold. How long it takes is judged on a free machine
// alone.
func (s *siege) must(within time.Duration, what string, ask func() error) {
	s.Helper()
	began := time.Now()
	s.lab.Eventually(s, func() error {
		if err := ask(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
	takings{time.Since(began)}.check(s.T, what, within)
}

// beforeOthers lets pods of the account run on two CPUs of the contested node, while a pod of the other tenant has the other
// two. Then the account does what may give its waiting pods the first turn, and returns their names. They and a pod of the other
// tenant of a higher priority wait for two CPUs: when these become idle, the other tenant has them.
func (s *siege) beforeOthers(run []client.Object, trick func() (waiting []string, err error)) error {
	s.lab.Create(s, s.lab.Pod(tenants, "early", there("2", ofClass("meek"))...))
	defer s.delete(tenants, "early", "rival")
	s.lab.Eventually(s, func() error { return s.onNode(tenants, "early") })
	err := s.create(run...)
	if err != nil {
		return err
	}
	s.lab.Eventually(s, func() error {
		var all []error
		for _, object := range run {
			if _, ok := object.(*corev1.Pod); ok {
				all = append(all, s.onNode(attackers, object.GetName()))
			}
		}
		return errors.Join(all...)
	})
	waiting, err := trick()
	if err != nil {
		return err
	}
	s.lab.Create(s, s.lab.Pod(tenants, "rival", there("2", ofClass("meek"))...))
	s.lab.Eventually(s, func() error {
		err := s.waiting(tenants, "rival", "")
		for _, name := range waiting {
			err = errors.Join(err, s.waiting(attackers, name, ""))
		}
		return err
	})
	s.delete(tenants, "early")
	first := ""
	s.must(2*startsWithin, "a job has what is idle", func() error {
		for _, name := range waiting {
			if s.onNode(attackers, name) == nil {
				first = name
				return nil
			}
		}
		return s.onNode(tenants, "rival")
	})
	if first != "" {
		s.Errorf("%s of the account has come before the job of higher priority", first)
	}
	return nil
}

// turns are meant to have the first turn, which is for what a gang has lost.
func turns() []attack {
	// replaced lets a gang that began with these members replace one of the last for each that is added.
	replaced := func(name string, began, later []string) attack {
		return attack{name: name, try: func(s *siege) error {
			run := []client.Object{group(attackers, "grows", int32(len(began)))}
			for i, amount := range began {
				run = append(run, s.lab.Pod(attackers, fmt.Sprintf("grows-%d", i), there(amount, harness.InGroup("grows"))...))
			}
			return s.beforeOthers(run, func() (waiting []string, err error) {
				for i, amount := range later {
					s.delete(attackers, fmt.Sprintf("grows-%d", len(began)-1-i))
					waiting = append(waiting, fmt.Sprintf("larger-%d", i))
					err = errors.Join(err, s.create(s.lab.Pod(attackers, waiting[i], there(amount, harness.InGroup("grows"))...)))
				}
				return waiting, err
			})
		}}
	}
	minimum := func(count string) harness.PodOption {
		return harness.PodAnnotations(map[string]string{v1alpha1.AnnotationMinMember: count})
	}
	implicit := func(s *siege, name, amount, least string) *corev1.Pod {
		return s.lab.Pod(attackers, name, there(amount, harness.InGroup("implicit"), minimum(least))...)
	}
	tiny := strings.Fields(strings.Repeat("100m ", 20))
	return []attack{
		replaced("a small member that is replaced by a large one", []string{"1800m", "200m"}, []string{"2"}),
		replaced("tiny members that are replaced by large ones", tiny, []string{"1", "1"}),
		{name: "a minimum without a PodGroup that waiting members raise", try: func(s *siege) error {
			run := []client.Object{implicit(s, "implicit-0", "1", "2"), implicit(s, "implicit-1", "1", "2")}
			return s.beforeOthers(run, func() ([]string, error) {
				return []string{"later"}, s.create(implicit(s, "later", "2", "3"))
			})
		}},
		{name: "a minimum without a PodGroup that is raised while members run", refused: byPolicies, try: func(s *siege) error {
			run := []client.Object{implicit(s, "implicit-0", "1", "2"), implicit(s, "implicit-1", "1", "2")}
			return s.beforeOthers(run, func() ([]string, error) {
				err := s.merge(run[0], `{"metadata":{"annotations":{"`+v1alpha1.AnnotationMinMember+`":"3"}}}`)
				if err == nil {
					err = s.create(implicit(s, "later", "2", "3"))
				}
				return []string{"later"}, err
			})
		}},
		{name: "a running pod that joins another group", refused: byPoliciesAlone,
			why: "a pod is a member of the group that it names, whenever it was named", try: func(s *siege) error {
				err := s.gang("joins", 2)
				s.lab.Eventually(s, func() error { return s.onNode(attackers, "joins-0", "joins-1") })
				return errors.Join(err, s.merge(s.alone("joins-0"), `{"metadata":{"labels":{"`+v1alpha1.LabelPodGroup+`":"other"}}}`))
			}},
	}
}

// lent is a loan: a gang of the other tenant waits for the whole contested node, which is reserved for it, and a gang of the
// account has two CPUs of it, since it has said to end in time. What the account does then does not keep the other gang from its
// start once the pod that it waits for has ended.
func (s *siege) lent(stay func()) error {
	s.lab.Create(s, s.lab.Pod(tenants, "early", there("2", endsAfter(3600))...), group(tenants, "holder", 2))
	s.lab.Eventually(s, func() error { return s.onNode(tenants, "early") })
	s.lab.Create(s, members(tenants, "holder", "", 2, there("2")...)...)
	defer func() {
		s.delete(tenants, "early", "holder-0", "holder-1")
		if err := s.lab.Client.Delete(s.Context(), group(tenants, "holder", 2)); err != nil {
			s.Fatal(err)
		}
	}()
	var holder v1alpha1.PodGroup
	s.lab.Eventually(s, func() error {
		err := s.lab.Client.Get(s.Context(), client.ObjectKey{Namespace: tenants, Name: "holder"}, &holder)
		if r := holder.Status.Reservation; err == nil && (r == nil || r.ExpectedStart == nil) {
			err = fmt.Errorf("the gang that waits has the reservation %+v", r)
		}
		return err
	})
	// Times in the API are of seconds, and what came in the same one as the reservation counts as older.
	s.passes(holder.Status.Reservation.Since.Add(time.Second))
	ends := holder.Status.Reservation.ExpectedStart.Add(-2 * time.Second)
	borrower := append([]client.Object{saying("borrower", time.Until(ends))}, members(attackers, "borrower", "", 2, there("1")...)...)
	if err := s.create(borrower...); err != nil {
		return err
	}
	s.lab.Eventually(s, func() error { return s.onNode(attackers, "borrower-0", "borrower-1") })
	s.passes(time.Now().Add(3 * time.Second)) // in which what was said of the first members would be too late for others
	stay()
	s.must(2*startsWithin, "the holder of the reservation starts", func() error { return s.onNode(tenants, "holder-0", "holder-1") })
	return nil
}

// passes waits until a moment has passed.
func (s *siege) passes(moment time.Time) {
	s.Helper()
	s.lab.Eventually(s, func() error {
		if left := time.Until(moment); left > 0 {
			return fmt.Errorf("it is %s until then", left)
		}
		return nil
	})
}

// saying is a group of two members that says how long it runs.
func saying(name string, runs time.Duration) *v1alpha1.PodGroup {
	g, seconds := group(attackers, name, 2), int64(runs/time.Second)
	g.Spec.ExpectedRunSeconds = &seconds
	return g
}

// borrowings are meant to stay on capacity that is lent.
func borrowings() []attack {
	again := func(name string, groups ...*v1alpha1.PodGroup) attack {
		return attack{name: name, try: func(s *siege) (err error) {
			return errors.Join(s.lent(func() {
				err = s.own.Delete(s.Context(), group(attackers, "borrower", 2))
				for _, g := range groups {
					err = errors.Join(err, s.create(g.DeepCopy()))
				}
				s.delete(tenants, "early")
			}), err)
		}}
	}
	return []attack{
		again("a borrower whose PodGroup is deleted"),
		again("a borrower whose PodGroup is created again with a later end", saying("borrower", 12*time.Hour)),
		{name: "a borrower that replaces its members one by one", try: func(s *siege) (err error) {
			return errors.Join(s.lent(func() {
				s.delete(tenants, "early")
				for i := range 2 {
					next := s.lab.Pod(attackers, fmt.Sprintf("next-%d", i), there("1", harness.InGroup("borrower"))...)
					err = errors.Join(err, s.own.Delete(s.Context(), s.alone(fmt.Sprintf("borrower-%d", i)), client.GracePeriodSeconds(0)), s.create(next))
					s.lab.Eventually(s, func() error { // it was looked at while the other one runs
						_, err := s.condition(attackers, next.Name)
						return err
					})
				}
			}), err)
		}},
	}
}

// stays are meant to keep a node from jobs of any priority.
func stays() []attack {
	// hoard lets two pods take the contested node that do not end before they are killed, with graces of their own.
	hoard := func(s *siege) error {
		var pods []client.Object
		for i, own := range []int64{0, 600} {
			pod := s.lab.Pod(attackers, fmt.Sprintf("hoarder-%d", i), there("2", harness.PodAnnotations(map[string]string{cluster.StopAfter: "1h"}))...)
			pod.Spec.TerminationGracePeriodSeconds = &own
			pods = append(pods, pod)
		}
		err := s.create(pods...)
		s.lab.Eventually(s, func() error { return s.onNode(attackers, "hoarder-0", "hoarder-1") })
		return err
	}
	return []attack{
		{name: "pods that are deleted with a grace of a year", refused: byPolicies, try: func(s *siege) error {
			err := hoard(s)
			for i := range 2 {
				err = errors.Join(err, s.own.Delete(s.Context(), s.alone(fmt.Sprintf("hoarder-%d", i)), client.GracePeriodSeconds(year)))
			}
			if err != nil {
				return err
			}
			s.lab.Create(s, s.lab.Pod(tenants, "urgent", there("4", ofClass("high"))...))
			defer s.delete(tenants, "urgent")
			// A second is the limit of the configuration, after which a pod may be waited for for 30.
			s.must(31*time.Second+2*startsWithin, "a job of higher priority has the node", func() error {
				s.killOverdue()
				return s.onNode(tenants, "urgent")
			})
			return nil
		}},
		{name: "an eviction with a grace of a year", refused: byPolicies, try: func(s *siege) error {
			err := hoard(s)
			for i := range 2 {
				pod := s.alone(fmt.Sprintf("hoarder-%d", i))
				err = errors.Join(err, s.own.SubResource("eviction").Create(s.Context(), pod, &policyv1.Eviction{
					ObjectMeta: pod.ObjectMeta, DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](year)},
				}))
			}
			return err
		}},
		{name: "a pod with a grace of a year", refused: byPolicies, try: func(s *siege) error {
			return s.create(s.alone("slow", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](year) }))
		}},
	}
}

// killOverdue does for the account's pods on nodes what a kubelet does: one is killed when its grace is over. That is the grace
// of the configuration by then, neither what the account has said nor the pod's own.
func (s *siege) killOverdue() {
	s.Helper()
	pods, err := s.lab.Pods(s.Context(), attackers)
	if err != nil {
		s.Fatal(err)
	}
	for i := range pods {
		pod := &pods[i]
		if ends := pod.DeletionTimestamp; ends != nil && ends.Before(&metav1.Time{Time: time.Now()}) {
			if grace := pod.DeletionGracePeriodSeconds; grace == nil || *grace > 1 {
				s.Errorf("pod %s ends after a grace of %v, want at most the second of the configuration", pod.Name, grace)
			}
			if err := s.lab.Client.Delete(s.Context(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				s.Fatal(err)
			}
		}
	}
}
