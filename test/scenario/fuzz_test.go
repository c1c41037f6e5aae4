package scenario

import (
	"fmt"
	"strings"
	"testing"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/bounds"
)

// FuzzObjects lets a pod, a node and a group that were not validated into a cluster with a gang that is fine, as the built-in
// configuration and kube-scheduler's plugins see it: the gang starts, whatever they say, no invariant breaks, and a plugin that
// panics does so over the pod.
func FuzzObjects(f *testing.F) {
	f.Add([]byte(oddPod), []byte(oddNode), []byte(oddGroup))
	f.Add([]byte(`{}`), []byte(`{}`), []byte(`{}`))
	f.Add([]byte(`{"spec": {"nodeName": "odd", "priority": -7, "affinity": {"podAntiAffinity":
		{"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "namespaceSelector": {},
		"labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}}]}}}, "status": {"phase": "Running"}}`),
		[]byte(oddNode), []byte(`{"spec": {"minMember": 2147483647, "roles": [{"name": "r", "minMember": 1}]}}`))
	f.Add([]byte(`{"metadata": {"annotations": {"isolcpu.tutti.dev/cpus": "2", "scheduling.tutti.dev/min-member": "x",
		"scheduling.k8s.io/group-name": "odd"}, "deletionTimestamp": "2026-01-05T08:00:00Z"},
		"spec": {"nodeName": "odd", "containers": [{"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}],
		"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}],
		"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, {"persistentVolumeClaim": {"claimName": "c"}}],
		"resourceClaims": [{"name": "c", "resourceClaimName": "d"}], "schedulingGates": [{"name": "g"}]}}`),
		[]byte(`{"metadata": {"annotations": {"isolcpu.tutti.dev/topology": "{}"}}, "status": {"allocatable": {"cpu": "-1"}}}`),
		[]byte(`{"spec": {"minMember": 0, "expectedRunSeconds": -1, "priorityClassName": "none", "queue": "q"},
		"status": {"reservation": {"nodes": [{}]}}}`))
	for _, annotations := range []string{
		`"scheduling.tutti.dev/topology": "[{\"level\":\"rack\",\"sliceSize\":2},{\"level\":\"zone\",\"mode\":\"Preferred\",\"waitSeconds\":9}]"`,
		`"scheduling.tutti.dev/topology": "[{\"levle\":\"rack\",\"roles\":[\"r\"]}]", "kai.scheduler/topology-required-placement": "zone"`,
		`"kueue.x-k8s.io/podset-required-topology": "zone", "kueue.x-k8s.io/podset-slice-required-topology": "rack", "kueue.x-k8s.io/podset-slice-size": "2"`,
		`"kueue.x-k8s.io/podset-slice-required-topology-constraints": "[{\"topology\":\"a/b/c\",\"size\":-9}]", "kueue.x-k8s.io/podset-group-name": "x"`,
	} {
		f.Add([]byte(`{"metadata": {"labels": {"scheduling.tutti.dev/pod-group": "odd"}, "annotations": {"scheduling.tutti.dev/min-member": "1", `+annotations+`}}}`),
			[]byte(oddNode), []byte(oddGroup))
	}
	for _, seed := range manyRules() {
		f.Add([]byte(seed), []byte(oddNode), []byte(oddGroup))
	}
	newStage := openLister(f)
	f.Fuzz(func(t *testing.T, pod, node, group []byte) {
		bounds.Hold(t, func() {
			const long = 1 << 16
			if len(pod)+len(node)+len(group) > long {
				return
			}
			o, ok := read(pod, node, group)
			if !ok {
				return
			}
			if _, err := o.suffer(newStage()); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// manyRules are pods with so many rules of placement that none is kept, with as many as are kept, and finished ones with long
// texts.
func manyRules() (pods []string) {
	for _, rules := range []int{250, 1000} {
		var keys, terms, tolerations strings.Builder
		for i := range rules {
			fmt.Fprintf(&keys, `{"key": "k%d", "operator": "Exists"},`, i)
			fmt.Fprintf(&tolerations, `{"key": "k%d"},`, i)
		}
		for i := range rules / 2 {
			fmt.Fprintf(&terms, `{"topologyKey": "z%d", "namespaceSelector": {}, "labelSelector": {}},`, i)
		}
		for _, bound := range []string{"", `"nodeName": "odd", `} {
			list := func(b *strings.Builder) string { return "[" + strings.TrimSuffix(b.String(), ",") + "]" }
			for _, spec := range []string{
				`"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone",
					"labelSelector": {"matchExpressions": ` + list(&keys) + `}}]}}`,
				`"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ` + list(&terms) + `}}`,
				`"tolerations": ` + list(&tolerations),
			} {
				pods = append(pods, `{"spec": {`+bound+spec+`}}`)
			}
		}
	}
	long := strings.Repeat("0", 1000) + "5"
	return append(pods, `{"metadata": {"annotations": {"scheduling.tutti.dev/min-member": "`+long+`", "scheduling.k8s.io/group-name": "`+long+`"},
		"ownerReferences": [{"uid": "`+long+`", "controller": true}]}, "spec": {"schedulerName": "`+long+`"}, "status": {"phase": "Failed"}}`)
}

// FuzzConfiguration builds what any text configures, if it configures anything, and plays a cycle with it.
func FuzzConfiguration(f *testing.F) {
	f.Add(string(config.DefaultYAML()))
	f.Add(reserveAtOnce(2, "reserveShare: 100"))
	f.Add("actions: allocate, preempt\ntiers: [{plugins: [{name: predicates, arguments: {a: b}}, {name: nodeorder, arguments: " +
		"{leastrequested.weight: 9223372036854775807, requestedtocapacityratio.weight: 1, \"requestedtocapacityratio.shape\": [{utilization: 0, score: 10}]}}]}]\n")
	f.Add("actions: allocate\ntiers: [{plugins: [{name: extender, arguments: {extenders: [{urlPrefix: \"http://127.0.0.1:1\"}]}}, {name: gang}]}]\n")
	f.Add("actions: preempt\nconfigurations: [{name: preempt, arguments: {budget: -1, budgets: delete}}]\ntiers: [{plugins: [{name: gang}]}]\n")
	newStage := openLister(f)
	f.Fuzz(func(t *testing.T, text string) {
		bounds.Hold(t, func() {
			const long = 1 << 14
			if len(text) > long || strings.Contains(text, "urlPrefix") { // no extender is to be asked
				return
			}
			s := newStage()
			if err := s.world.apply(good); err != nil {
				t.Fatal(err)
			}
			s.configuration = []byte(text)
			if err := s.open(); err != nil {
				return
			}
			engine.Run(s.state.Snapshot(s.world.now), s.profile, engine.Options{Verify: true, Decide: func(decision model.Decision) {
				s.state.Assume(decision)
				for _, bind := range decision.Binds {
					s.reserved.Confirm(bind.Pod.UID)
				}
			}})
			if err := s.state.Snapshot(s.world.now).Check(); err != nil {
				t.Fatal(err)
			}
		})
	})
}
