package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
)

// attempt is a request for an object by its path, with a body of JSON, and words of the policy that refuses it; none where it
// must be allowed.
type attempt struct{ by, verb, path, body, refusal string }

// Where the attempts are made.
const (
	inGuarded   = "/api/v1/namespaces/guarded/"
	groupsThere = "/apis/scheduling.tutti.dev/v1alpha1/namespaces/guarded/podgroups"
	queuesThere = "/apis/scheduling.tutti.dev/v1alpha1/queues"
	claimsThere = "/apis/resource.k8s.io/v1/namespaces/guarded/resourceclaims"
	volumes     = "/api/v1/persistentvolumes"
)

// ask sends a request.
func (v visitor) ask(a attempt) error {
	content := "application/json"
	if a.verb == "PATCH" {
		content = string(types.MergePatchType)
	}
	request := v.CoreV1().RESTClient().Verb(a.verb).AbsPath(a.path).SetHeader("Content-Type", content)
	if a.body != "" {
		request = request.Body([]byte(a.body))
	}
	return request.Do(v.Context()).Error()
}

// assertGuards asks the server for what the policies refuse that guard the scheduler's objects, limit its account and, where they
// are turned on, limit users; and for what is next to it and must go on.
func assertGuards(t *testing.T, lab *harness.Env, node string) {
	account := "system:serviceaccount:" + release.Namespace + ":tutti-scheduler"
	visitors := map[string]visitor{
		"user": as(t, lab, "user", nil), "account": as(t, lab, account, nil), "kubelet": as(t, lab, "system:node:"+node, nil),
	}
	for _, a := range guardedObjects() {
		if err := visitors["user"].ask(a); err != nil {
			t.Fatalf("%s %s: %v", a.verb, a.path, err)
		}
	}
	status := attempt{verb: "PATCH", path: groupsThere + "/one/status", body: `{"status":{"phase":"Running"}}`}
	lab.Eventually(t, func() error { // until the server knows of the policies
		if err := visitors["user"].ask(status); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a forged status: %v", err)
		}
		return nil
	})
	bind := fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"bound"},"target":{"kind":"Node","name":%q}}`, node)
	if err := visitors["account"].ask(attempt{verb: "POST", path: inGuarded + "pods/bound/binding", body: bind}); err != nil {
		t.Fatal(err)
	}
	for _, group := range [][]attempt{forgeries(node), overreaches(), liberties(node), removals()} {
		for _, a := range group {
			what := fmt.Sprintf("%s: %s %s %s", a.by, a.verb, a.path, a.body)
			if err := visitors[a.by].ask(a); a.refusal == "" {
				allowed(t, what, err)
			} else {
				refused(t, what, err, a.refusal)
			}
		}
	}
}

// podText is a pod as JSON, with more fields of its spec, each with a comma behind it.
func podText(name, scheduler, more string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"scheduling.tutti.dev/pod-group":"one"}},`+
		`"spec":{"schedulerName":%q,%s"containers":[{"name":"main","image":"none"}]}}`, name, scheduler, more)
}

// guardedObjects makes what the attempts are about.
func guardedObjects() []attempt {
	post := func(path, body string) attempt { return attempt{verb: "POST", path: path, body: body} }
	all := []attempt{
		post("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"guarded"}}`),
		post(groupsThere, `{"apiVersion":"scheduling.tutti.dev/v1alpha1","kind":"PodGroup","metadata":{"name":"one"},"spec":{"minMember":9}}`),
		post(groupsThere, `{"apiVersion":"scheduling.tutti.dev/v1alpha1","kind":"PodGroup","metadata":{"name":"brief"},
			"spec":{"minMember":9,"ttlSecondsAfterFinished":0}}`),
		post(queuesThere, `{"apiVersion":"scheduling.tutti.dev/v1alpha1","kind":"Queue","metadata":{"name":"guarded"}}`),
		post(inGuarded+"persistentvolumeclaims", `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"mine"},
			"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"none","resources":{"requests":{"storage":"1Gi"}}}}`),
		post("/api/v1/namespaces/kube-system/pods", podText("system", "tutti", "")),
	}
	for _, pod := range []string{"ours", "bound", "evicted", "evicted-soon", "evicted-late", "undone"} {
		all = append(all, post(inGuarded+"pods", podText(pod, "tutti", "")))
	}
	for _, pod := range []string{"foreign", "other"} {
		all = append(all, post(inGuarded+"pods", podText(pod, "absent", "")))
	}
	for name, claim := range map[string]string{"free": "", "retained": `"claimRef":{"namespace":"elsewhere","name":"old","uid":"1"},`} {
		all = append(all, post(volumes, fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":%q},
			"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"persistentVolumeReclaimPolicy":"Retain",
			"storageClassName":"none",%s"hostPath":{"path":"/x"}}}`, name, claim)))
	}
	for name, annotations := range map[string]string{"users": "", "made": `"resource.kubernetes.io/extended-resource-claim":"true"`} {
		all = append(all, post(claimsThere, fmt.Sprintf(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim",
			"metadata":{"name":%q,"annotations":{%s}},"spec":{}}`, name, annotations)))
	}
	return all
}

// forgeries are writes of what a scheduler alone decides.
func forgeries(node string) []attempt {
	nominate := fmt.Sprintf(`{"status":{"nominatedNodeName":%q}}`, node)
	phase := `{"status":{"phase":"Running"}}`
	byScheduler := "status.nominatedNodeName: a pod of this scheduler"
	queued := `{"metadata":{"labels":{"scheduling.tutti.dev/queue":"guarded"}}}`
	return []attempt{
		{"user", "PATCH", groupsThere + "/one/status", phase, "is written by schedulers"},
		{"kubelet", "PATCH", groupsThere + "/one/status", phase, "is written by schedulers"},
		{"account", "PATCH", groupsThere + "/one/status", phase, ""},
		{"user", "PATCH", queuesThere + "/guarded/status", `{"status":{"running":7}}`, "is written by schedulers"},
		{"account", "PATCH", queuesThere + "/guarded/status", `{"status":{"running":7}}`, ""},
		{"user", "PATCH", groupsThere + "/one", `{"metadata":{"labels":{"a":"b"}}}`, ""},
		{"user", "PATCH", inGuarded + "pods/ours/status", nominate, byScheduler},
		{"kubelet", "PATCH", inGuarded + "pods/ours/status", nominate, byScheduler},
		{"account", "PATCH", inGuarded + "pods/ours/status", nominate, ""},
		{"kubelet", "PATCH", inGuarded + "pods/ours/status", `{"status":{"message":"x"}}`, ""},
		{"user", "PATCH", inGuarded + "pods/ours/status", `{"status":{"nominatedNodeName":"elsewhere"}}`, byScheduler},
		{"kubelet", "PATCH", inGuarded + "pods/ours/status", `{"status":{"nominatedNodeName":null}}`, ""},
		{"user", "PATCH", inGuarded + "pods/foreign/status", nominate, ""},
		{"user", "PATCH", inGuarded + "pods/bound", queued, "it holds capacity of its queue"},
		{"user", "PATCH", inGuarded + "pods/bound", `{"metadata":{"labels":{"a":"b"}}}`, ""},
		{"user", "PATCH", inGuarded + "pods/other", queued, ""},
		{"user", "PATCH", inGuarded + "pods/ours", queued, ""},
		{"user", "PATCH", inGuarded + "pods/ours", `{"metadata":{"labels":{"scheduling.tutti.dev/queue":null}}}`, ""},
	}
}

// overreaches are requests of the scheduler's account that its roles allow.
func overreaches() []attempt {
	// The claim does not exist, so that the controller of volumes adds nothing to what is tried.
	const claim = `{"spec":{"claimRef":{"namespace":"guarded","name":"later"}}}`
	const mine = inGuarded + "persistentvolumeclaims/mine"
	eviction := func(pod string) string {
		return fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q}}`, pod)
	}
	return []attempt{
		{"account", "DELETE", groupsThere + "/one", "", "PodGroups with spec.ttlSecondsAfterFinished"},
		{"account", "DELETE", groupsThere + "/brief", "", ""},
		{"account", "DELETE", inGuarded + "pods/foreign", "", "and this one is of absent"},
		{"account", "PATCH", inGuarded + "pods/foreign/status", `{"status":{"message":"x"}}`, "and this one is of absent"},
		{"account", "PATCH", inGuarded + "pods/ours/status", `{"status":{"message":"y"}}`, ""},
		{"account", "POST", "/api/v1/namespaces/kube-system/pods/system/binding",
			`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"system"},"target":{"kind":"Node","name":"x"}}`, "in the namespace kube-system"},
		{"account", "POST", "/api/v1/namespaces/kube-system/pods/system/eviction", eviction("system"), "in the namespace kube-system"},
		{"account", "DELETE", "/api/v1/namespaces/kube-system/pods/system", "", "in the namespace kube-system"},
		{"account", "POST", inGuarded + "pods/evicted/eviction", eviction("evicted"), ""},
		{"account", "PATCH", volumes + "/retained", claim, "take none from one"},
		{"account", "PATCH", volumes + "/retained", `{"spec":{"claimRef":{"uid":"2"}}}`, "take none from one"},
		{"account", "PATCH", volumes + "/retained", `{"spec":{"claimRef":null}}`, "take none from one"},
		{"account", "PATCH", volumes + "/free", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`, "and nothing else"},
		{"account", "PATCH", volumes + "/free", `{"metadata":{"labels":{"a":"b"}}}`, "and nothing else"},
		{"account", "PATCH", volumes + "/free", claim, ""},
		{"account", "PATCH", volumes + "/free", `{"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},
			"spec":{"claimRef":{"uid":"3"}}}`, ""},
		{"user", "PATCH", volumes + "/retained", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`, ""},
		{"account", "PATCH", mine, `{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"x"}}}`, ""},
		{"account", "PATCH", mine, `{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":null}}}`, ""},
		{"account", "PATCH", mine, `{"metadata":{"annotations":{"a":"b"}}}`, "and nothing else"},
		{"account", "PATCH", mine, `{"metadata":{"finalizers":["example.com/a"]}}`, "and nothing else"},
		{"user", "PATCH", mine, `{"metadata":{"annotations":{"a":"b"}}}`, ""},
		{"account", "PATCH", mine, `{"metadata":{"annotations":{"a":null}}}`, "and nothing else"},
		{"account", "DELETE", claimsThere + "/users", "", "and no others"},
		{"account", "DELETE", claimsThere + "/made", "", ""},
		{"account", "DELETE", inGuarded + "pods/undone", "", ""},
	}
}

// liberties are what users ask for in pods that neither roles nor quotas can refuse.
func liberties(node string) []attempt {
	const pods = inGuarded + "pods"
	extended := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(`"example.com/r%d":"1"`, i))
		}
		all := strings.Join(names, ",")
		return fmt.Sprintf(`"initContainers":[{"name":"first","image":"none","resources":{"requests":{"cpu":"1",%s},"limits":{%s}}}],`, all, all)
	}
	there := fmt.Sprintf(`"nodeName":%q,`, node)
	apart := func(from string) string {
		return fmt.Sprintf(`"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[`+
			`{"topologyKey":"kubernetes.io/hostname","labelSelector":{}%s}]}},`, from)
	}
	join := func(key string) string {
		return fmt.Sprintf(`{"metadata":{"labels":{"scheduling.tutti.dev/%s":"two"}}}`, key)
	}
	return []attempt{
		{"user", "POST", pods, podText("there", "tutti", there), "spec.nodeName: the scheduler chooses"},
		{"user", "POST", pods, podText("there", "absent", there), ""},
		{"user", "POST", pods, podText("slow", "tutti", `"terminationGracePeriodSeconds":601,`), "600 is the most"},
		{"user", "POST", pods, podText("slow", "tutti", `"terminationGracePeriodSeconds":600,`), ""},
		{"user", "POST", pods, podText("very-slow", "absent", `"terminationGracePeriodSeconds":86400,`), ""},
		{"user", "POST", pods, podText("names", "tutti", extended(17)), "name 17 extended resources"},
		{"user", "POST", pods, podText("names", "tutti", extended(16)), ""},
		{"user", "POST", pods, podText("apart", "tutti", apart(`,"namespaceSelector":{}`)), "the pods of its own namespace"},
		{"user", "POST", pods, podText("apart", "tutti", apart(`,"namespaces":["other"]`)), "the pods of its own namespace"},
		{"user", "POST", pods, podText("apart", "tutti", apart(`,"namespaces":["guarded"]`)), ""},
		{"user", "POST", pods, podText("apart-here", "tutti", apart("")), ""},
		{"user", "POST", pods, podText("apart-elsewhere", "absent", apart(`,"namespaceSelector":{}`)), ""},
		{"user", "PATCH", pods + "/bound", join("pod-group"), "cannot join or leave a PodGroup"},
		{"user", "PATCH", pods + "/bound", join("role"), "cannot join or leave a PodGroup"},
		{"user", "PATCH", pods + "/bound", `{"metadata":{"labels":null}}`, "cannot join or leave a PodGroup"},
		{"user", "PATCH", pods + "/bound", `{"metadata":{"annotations":{"scheduling.tutti.dev/min-member":"1"}}}`, "or its minimum"},
		{"user", "PATCH", pods + "/bound", `{"metadata":{"labels":{"a":"b"}}}`, ""},
		{"user", "PATCH", pods + "/ours", join("pod-group"), ""},
		{"user", "PATCH", pods + "/there", join("pod-group"), ""},
	}
}

// eviction is a request to evict a pod, which gets so many seconds to end.
func eviction(pod string, seconds int) string {
	return fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":"guarded"},`+
		`"deleteOptions":{"gracePeriodSeconds":%d}}`, pod, seconds)
}

// removals end what is left.
func removals() []attempt {
	const late, now = `{"gracePeriodSeconds":601}`, `{"gracePeriodSeconds":0}`
	all := []attempt{
		{"user", "POST", inGuarded + "pods/bound/eviction", eviction("bound", 601), "600 is the most"},
		{"user", "POST", inGuarded + "pods/evicted-soon/eviction", eviction("evicted-soon", 600), ""},
		{"account", "POST", inGuarded + "pods/evicted-late/eviction", eviction("evicted-late", 601), ""}, // as maxGrace says
		{"user", "DELETE", inGuarded + "pods/bound", late, "600 is the most"},
		{"account", "DELETE", inGuarded + "pods/bound", late, ""},
		{"user", "DELETE", inGuarded + "pods/ours", late, ""}, // the server gives a pod without a node no time
		{"user", "DELETE", inGuarded + "pods/other", late, ""},
		{"user", "DELETE", "/api/v1/namespaces/kube-system/pods/system", now, ""},
		{"user", "DELETE", inGuarded + "pods", now, ""},
	}
	// The namespace stays: no client may write events in one that is deleted.
	for _, path := range []string{volumes + "/free", volumes + "/retained", groupsThere + "/one", inGuarded + "persistentvolumeclaims/mine"} {
		all = append(all, attempt{"user", "DELETE", path, "", ""})
	}
	return all
}
