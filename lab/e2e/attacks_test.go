package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
)

const (
	// floods is how long each flood lasts, and longer where it has not yet repeated what it is made of leastOfAFlood times.
	floods        = 3 * time.Second
	leastOfAFlood = 10
)

// attacks are all attempts, by what they are meant for.
func attacks() []attack {
	var all []attack
	for _, part := range [][]attack{stops(), rules(), jumps(), turns(), borrowings(), evicts(), stays(), hides(), forges(), escapes(), foreign(), floodings(), masses()} {
		all = append(all, part...)
	}
	return all
}

// alone is a pod of the account, without a group, with one CPU.
func (s *siege) alone(name string, change ...harness.PodOption) *corev1.Pod {
	return s.lab.Pod(attackers, name, append([]harness.PodOption{oneCPU}, change...)...)
}

// gang creates a gang of the account.
func (s *siege) gang(name string, size int, change ...harness.PodOption) error {
	return s.create(append([]client.Object{group(attackers, name, int32(size))}, members(attackers, name, "", size, change...)...)...)
}

// merge patches an object as the account.
func (s *siege) merge(object client.Object, text string, subresource ...string) error {
	patch := client.RawPatch(types.MergePatchType, []byte(text))
	if len(subresource) > 0 {
		return s.own.SubResource(subresource[0]).Patch(s.Context(), object, patch)
	}
	return s.own.Patch(s.Context(), object, patch)
}

// asks returns an option that asks for extended resources.
func asks(amount string, names int) harness.PodOption {
	return func(p *corev1.Pod) {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		for i := range names {
			list[corev1.ResourceName(fmt.Sprintf("x.io/r%d", i))] = resource.MustParse(amount)
		}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	}
}

// labeled returns an option with so many labels.
func labeled(count int) harness.PodOption {
	return func(p *corev1.Pod) {
		for i := range count {
			p.Labels[fmt.Sprintf("example.com/label-%d", i)] = "x"
		}
	}
}

// stops are meant to end the scheduler or to keep it busy.
func stops() []attack {
	pod := func(name string, by refusal, change ...harness.PodOption) attack {
		return attack{name: name, refused: by, try: func(s *siege) error {
			return s.create(s.alone(fmt.Sprint("odd-", s.created), change...))
		}}
	}
	large := harness.PodAnnotations(map[string]string{"example.com/text": largeText[:250<<10]})
	return []attack{
		pod("4,000 resource names", never, asks("1", 4000)),
		pod("15,000 resource names", never, asks("1", 15_000)),
		pod("the largest amount there is", never, asks("9223372036854775807", 8)),
		pod("more CPUs than the quota", always, harness.Requests(map[string]string{"cpu": "1000000"})),
		pod("a pod of a megabyte", never, large, largePods[0]),
		pod("5,000 labels", never, labeled(5000)),
		pod("a group with a bad name", always, harness.InGroup("-bad/..")),
		pod("a minimum that is no number", never, harness.PodAnnotations(map[string]string{
			v1alpha1.AnnotationMinMember: "99999999999999999999", v1alpha1.AnnotationKubeBatchGroup: "../../x",
		})),
		pod("an affinity that is no number", never, func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpGt, Values: []string{"x"}}},
				}}},
			}}
		}),
		{name: "a group of a megabyte that 100,000 members are wanted for", try: func(s *siege) error {
			g := group(attackers, "large", 100_000)
			g.Annotations = map[string]string{"example.com/text": largeText[:250<<10]}
			return s.create(g, s.alone("member", harness.InGroup("large")))
		}},
	}
}

// jumps are meant to get before others, or to hold more than the quota.
func jumps() []attack {
	const mine = `{"status":{"phase":"Running","startedMinMember":1,"queuedSince":"2001-01-01T00:00:00Z","reservation":{"nodes":[{"name":"node-0",
		"members":1,"resources":{"cpu":"8"}}]}}}`
	return []attack{
		{name: "spec.nodeName of a member", refused: byPolicies, try: func(s *siege) error { return s.create(s.alone("there", harness.OnNode("node-0"))) }},
		{name: "a minimum that is raised", try: func(s *siege) error {
			err := s.gang("raised", 2)
			return errors.Join(err, s.merge(group(attackers, "raised", 2), `{"spec":{"minMember":100000}}`))
		}},
		{name: "an old group that is filled later", try: func(s *siege) error {
			return errors.Join(s.create(group(attackers, "old", 8)), s.create(members(attackers, "old", "", 8)...))
		}},
		{name: "a class that the quota does not give", refused: always, try: func(s *siege) error {
			return s.create(s.alone("high", func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }))
		}},
		{name: "a class named by the group alone", try: func(s *siege) error {
			g := group(attackers, "class", 4)
			g.Spec.PriorityClassName = "high"
			return s.create(append([]client.Object{g}, members(attackers, "class", "", 4, onPool("small"))...)...)
		}},
		{name: "a status of its own group", refused: always, try: func(s *siege) error {
			return errors.Join(s.gang("mine", 2), s.merge(group(attackers, "mine", 2), mine, "status"))
		}},
		{name: "a group that is created with a status", try: func(s *siege) error {
			g := group(attackers, "born", 4)
			g.Status = v1alpha1.PodGroupStatus{Phase: v1alpha1.PodGroupDegraded, StartedMinMember: 4, Reservation: &v1alpha1.Reservation{}}
			return s.create(append([]client.Object{g}, members(attackers, "born", "", 4)...)...)
		}},
		{name: "a nomination of its own pod", refused: always, try: func(s *siege) error {
			pod := s.alone("nominated", onPool("small"))
			return errors.Join(s.create(pod), s.merge(pod, `{"status":{"nominatedNodeName":"node-0"}}`, "status"))
		}},
		{name: "gangs that wait for a reservation", try: func(s *siege) error {
			if err := s.gang("reserves", 3, onPool("small")); err != nil {
				return err
			}
			var g v1alpha1.PodGroup
			s.lab.Eventually(s, func() error {
				err := s.lab.Client.Get(s.Context(), client.ObjectKey{Namespace: attackers, Name: "reserves"}, &g)
				if err == nil && g.Status.Reservation == nil {
					err = errors.New("the gang has no reservation")
				}
				return err
			})
			return nil
		}},
	}
}

// evicts are meant to end pods of others.
func evicts() []attack {
	standing := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tenants, Name: "standing-0"}}
	return []attack{
		{name: "an eviction in another namespace", refused: always, try: func(s *siege) error {
			return s.own.SubResource("eviction").Create(s.Context(), standing, &policyv1.Eviction{ObjectMeta: standing.ObjectMeta})
		}},
		{name: "a deletion in another namespace", refused: always, try: func(s *siege) error { return s.own.Delete(s.Context(), standing.DeepCopy()) }},
		{name: "a gang for the nodes of others", try: func(s *siege) error { return s.gang("taker", 4, onPool("small")) }},
		{name: "a budget for all pods", try: func(s *siege) error {
			all := intstr.FromString("100%")
			budget := &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: attackers, Name: "all"},
				Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{}},
			}
			return errors.Join(s.create(budget), s.gang("shielded", 8))
		}},
	}
}

// hides are meant to be taken for others.
func hides() []attack {
	return []attack{
		{name: "a group of another scheduler", try: func(s *siege) error {
			g := group(attackers, "others", 2)
			g.Spec.SchedulerName = "other"
			return s.create(append([]client.Object{g}, members(attackers, "others", "", 2)...)...)
		}},
		{name: "a pod of another scheduler in a group", try: func(s *siege) error {
			return errors.Join(s.gang("mixed", 2), s.create(s.alone("other", harness.InGroup("mixed"), harness.ScheduledBy("other"))))
		}},
		{name: "a group that is called as one of others", try: func(s *siege) error {
			return errors.Join(s.gang("standing", 2), s.gang(fmt.Sprintf("gang-%d", s.gangs), 2))
		}},
	}
}

// forges are meant to make others believe what is not so.
func forges() []attack {
	return []attack{
		{name: "a status of a group of others", refused: always, try: func(s *siege) error {
			return s.merge(group(tenants, "standing", 4), `{"status":{"phase":"Failed"}}`, "status")
		}},
		{name: "a group of others", refused: always, try: func(s *siege) error {
			return s.merge(group(tenants, "standing", 4), `{"spec":{"minMember":100}}`)
		}},
		{name: "an assignment of isolated CPUs", refused: always, try: func(s *siege) error {
			return s.create(s.alone("forged", harness.PodAnnotations(map[string]string{"isolcpu.tutti.dev/assigned": `{"main":"1-3"}`})))
		}},
		{name: "an event about a pod of others", refused: always, try: func(s *siege) error {
			return s.create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: tenants, Name: "forged"}, Reason: "Scheduled",
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: tenants, Name: "standing-0"}})
		}},
		{name: "the Lease", refused: always, try: func(s *siege) error {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: release.Namespace, Name: leaseOf}}
			return s.merge(lease, `{"spec":{"holderIdentity":"attacker"}}`)
		}},
		{name: "the configuration", refused: always, try: func(s *siege) error {
			config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: release.Namespace, Name: release.Deployment}}
			return s.merge(config, `{"data":{"scheduler.yaml":"actions: allocate"}}`)
		}},
	}
}

// escapes are meant to get out of the namespace.
func escapes() []attack {
	return []attack{
		{name: "a pod in another namespace", refused: always, try: func(s *siege) error { return s.create(s.lab.Pod(tenants, "intruder", harness.InGroup("standing"))) }},
		{name: "the secrets of the release", refused: always, try: func(s *siege) error {
			return s.own.List(s.Context(), &corev1.SecretList{}, client.InNamespace(release.Namespace))
		}},
		{name: "a token of the scheduler's account", refused: always, try: func(s *siege) error {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: release.Namespace, Name: "tutti-scheduler"}}
			return s.own.SubResource("token").Create(s.Context(), account, &authenticationv1.TokenRequest{})
		}},
		{name: "a bind", refused: always, try: func(s *siege) error {
			pod := s.alone("binds", onPool("small"))
			return errors.Join(s.create(pod), s.own.SubResource("binding").Create(s.Context(), pod,
				&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node-0"}}))
		}},
		{name: "a node", refused: always, try: func(s *siege) error {
			return s.merge(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}, `{"spec":{"unschedulable":true}}`)
		}},
		{name: "what the scheduler shows of itself", try: func(s *siege) error {
			own, err := s.lab.Clientset.CoreV1().ServiceAccounts(attackers).CreateToken(s.Context(), "attacker",
				&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{debugapi.Audience}}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			for _, token := range []string{s.token, own.Status.Token, ""} {
				for _, path := range []string{"/metrics", "/debug/nodes", "/debug/config"} {
					got, err := status(s.T, s.endpoint, path, token)
					if err != nil || got != http.StatusUnauthorized && got != http.StatusForbidden {
						return fmt.Errorf("%s answers %d, %w", path, got, err)
					}
				}
			}
			return nil
		}},
	}
}

// flood repeats something while a flood lasts, and starts gangs of the other tenant and reports of its pods meanwhile, leastPace
// of each at least. That the quota counts what is deleted later than the server deletes it does not end a flood.
func (s *siege) flood(again func(i int) error) error {
	done, enough := make(chan error, 1), make(chan struct{})
	began, passed := time.Now(), 0
	measured := func() bool {
		select {
		case <-enough:
			return true
		default:
			return false
		}
	}
	go func() {
		for i := 0; time.Since(began) < floods || (passed < leastOfAFlood || !measured()) && time.Since(began) < patience; i++ {
			if err := again(i); err == nil {
				passed++
			} else if !apierrors.IsForbidden(err) {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		select {
		case err := <-done:
			if s.Logf("a flood of %d in %s", passed, time.Since(began).Round(100*time.Millisecond)); err == nil && passed < leastOfAFlood {
				s.Errorf("a flood of %d, want at least %d", passed, leastOfAFlood)
			}
			return err
		default:
			s.under.starts, s.under.reports = append(s.under.starts, s.start()), append(s.under.reports, s.reported())
			if len(s.under.starts) == leastPace {
				close(enough)
			}
		}
	}
}

// reported creates a pod of the other tenant that waits, returns how long it took until that was written, and deletes it.
func (s *siege) reported() time.Duration {
	s.Helper()
	name := fmt.Sprintf("waits-%d", s.gangs)
	s.lab.Create(s, s.lab.Pod(tenants, name, cpu("1000")))
	began := time.Now()
	s.lab.Eventually(s, func() error { return s.waiting(tenants, name, "") })
	took := time.Since(began)
	s.delete(tenants, name)
	return took
}

// floodings are meant to make so much work that none is left for others.
func floodings() []attack {
	return []attack{
		{name: "pods that come and go", try: func(s *siege) error {
			return s.flood(func(i int) error {
				pod := s.alone(fmt.Sprintf("churn-%d", i), labeled(500))
				return cmp.Or(s.create(pod), s.own.Delete(s.Context(), pod, client.GracePeriodSeconds(0)))
			})
		}},
		// The scheduler makes 5,000 first writes of a namespace and kind in 10 s at most, which no lab reaches: its unit tests
		// do.
		{name: "pods that each wait for the first time, and go", try: func(s *siege) error {
			return s.flood(func(i int) error {
				before := s.alone(fmt.Sprintf("first-%d", i-mostPods/2))
				if err := s.own.Delete(s.Context(), before, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
					return err
				}
				return s.create(s.alone(fmt.Sprintf("first-%d", i), cpu("10m"), onPool("small"), harness.InGroup("first")))
			})
		}},
		{name: "a minimum that flips", try: func(s *siege) error {
			none := harness.Requests(map[string]string{"cpu": "100m"})
			if err := s.gang("flips", 30, none, onPool("small")); err != nil {
				return err
			}
			return s.flood(func(i int) error {
				return s.merge(group(attackers, "flips", 30), fmt.Sprintf(`{"spec":{"minMember":%d}}`, 31+i%2*9))
			})
		}},
		{name: "labels that flip", try: func(s *siege) error {
			if err := s.gang("labels", 4, onPool("small")); err != nil {
				return err
			}
			return s.flood(func(i int) error {
				return s.merge(s.alone(fmt.Sprintf("labels-%d", i%4)), fmt.Sprintf(`{"metadata":{"labels":{"a":"%d"}}}`, i))
			})
		}},
		{name: "as many groups as the quota gives, and more", refused: always, try: func(s *siege) error {
			for i := range 10 * 20 { // the quota may be counted again meanwhile, from a list that is behind
				if err := s.create(group(attackers, fmt.Sprintf("group-%d", i), 2)); err != nil {
					return err
				}
			}
			return nil
		}},
	}
}
