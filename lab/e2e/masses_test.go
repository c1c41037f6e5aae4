package e2e

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// The attempts of this file make much for the scheduler to keep, or to look at for each pod and node.

const (
	// manyClaims is how many claims the account makes of a kind, endings how many times its whole quota of pods ends.
	manyClaims, endings = 100, 4
	// smallObject is what may be held of an object of which no more than its identity counts, slackMemory what the heap may
	// differ.
	smallObject, slackMemory = 8 << 10, 3 << 20
)

// apart are required anti-affinity terms of a pod, each to other pods with so many labels of its own, in a topology of its own
// where the key is to differ.
func apart(prefix string, terms, labels int, ownTopology bool) harness.PodOption {
	return func(p *corev1.Pod) {
		var all []corev1.PodAffinityTerm
		for i := range terms {
			of := map[string]string{}
			for k := range labels {
				of[fmt.Sprintf("%s-%d-%d", prefix, i, k)] = "x"
			}
			term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: of}}
			if ownTopology {
				term.TopologyKey = fmt.Sprintf("example.com/%s-%d", prefix, i)
			}
			all = append(all, term)
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: all}}
	}
}

// rules are pods with many rules of placement, which are looked at for other pods.
func rules() []attack {
	// run lets pods run, each with terms of its own.
	run := func(name string, terms, labels int, ownTopology bool) attack {
		return attack{name: name, try: func(s *siege) error {
			var names []string
			for i := range mostPods {
				names = append(names, fmt.Sprintf("rules-%d", i))
				if err := s.create(s.alone(names[i], cpu("10m"), apart(names[i], terms, labels, ownTopology))); err != nil {
					return err
				}
			}
			s.lab.Eventually(s, func() error { return s.onNode(attackers, names...) })
			return nil
		}}
	}
	return []attack{
		run("10,000 labels that terms of running pods name", 1, 250, false),
		run("5,000 terms of running pods, each of its own topology key", 125, 1, true),
		{name: "more than 256 rules of placement", try: func(s *siege) error {
			err := s.create(s.alone("labels", apart("label", 1, 1000, false)), s.alone("terms", apart("term", 1000, 1, true)))
			for _, name := range []string{"labels", "terms"} {
				s.must(startsWithin, "it says that it has too many", func() error { return s.waiting(attackers, name, "at most 256") })
			}
			return err
		}},
		{name: "anti-affinity to the pods of others", refused: byPoliciesAlone,
			why: "with any scheduler such a pod keeps others from its node; a quota with the scope CrossNamespacePodAffinity refuses it, too",
			try: func(s *siege) error {
				return s.create(s.alone("apart", apart("x", 1, 0, false), func(p *corev1.Pod) {
					p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector = &metav1.LabelSelector{}
				}))
			}},
	}
}

// heldOf fails the test when the heap has grown by more than so many small objects take.
func (s *siege) heldOf(objects int, before uint64) {
	s.Helper()
	s.start()                          // the watch shows what was created before this gang
	s.lab.Eventually(s, func() error { // what was read of them may be in use for a while
		if now := s.heap(); now > before+uint64(objects)*smallObject+slackMemory {
			return fmt.Errorf("with %d objects the heap is %d KiB, before it was %d KiB", objects, now>>10, before>>10)
		}
		return nil
	})
}

// masses are many large objects that no quota of the account counts.
func masses() []attack {
	large := map[string]string{"example.com/text": largeText[:200<<10]}
	return []attack{
		{name: "pods with hundreds of owners that have ended", try: func(s *siege) error {
			var owner corev1.ConfigMap
			s.lab.Eventually(s, func() error {
				return s.own.Get(s.Context(), client.ObjectKey{Namespace: attackers, Name: "kube-root-ca.crt"}, &owner)
			})
			owners := make([]metav1.OwnerReference, 500)
			for i := range owners {
				owners[i] = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
			}
			before := s.heap()
			for round := range endings {
				for i := range mostPods {
					pod := s.alone(fmt.Sprintf("ends-%d-%d", round, i), cpu("10m"), harness.PodAnnotations(map[string]string{cluster.RunFor: "0s"}))
					pod.OwnerReferences = owners
					if err := s.create(pod); err != nil {
						return err
					}
				}
				s.lab.Eventually(s, s.usesNoPods)
			}
			s.heldOf(endings*mostPods, before)
			return nil
		}},
		{name: "large claims that pods name", try: func(s *siege) error {
			before := s.heap()
			var names []string
			for i := range manyClaims {
				about := metav1.ObjectMeta{Namespace: attackers, Name: fmt.Sprintf("claim-%d", i), Annotations: maps.Clone(large)}
				names = append(names, about.Name)
				err := s.create(&resourceapi.ResourceClaim{ObjectMeta: about}, &corev1.PersistentVolumeClaim{
					ObjectMeta: about,
					Spec: corev1.PersistentVolumeClaimSpec{
						StorageClassName: ptr.To("none"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
					},
				})
				if err != nil {
					return err
				}
			}
			var err error
			for i := range mostPods {
				err = errors.Join(err, s.create(s.alone(fmt.Sprintf("names-%d", i), cpu("10m"), claiming(names))))
			}
			s.heldOf(2*manyClaims+mostPods*4, before) // a pod keeps the names
			return err
		}},
	}
}

// claiming lets a pod name volume claims and resource claims.
func claiming(names []string) harness.PodOption {
	return func(p *corev1.Pod) {
		for _, name := range names {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: ptr.To(name)})
		}
	}
}
