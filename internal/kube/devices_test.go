package kube_test

import (
	"errors"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/tutti-sched/tutti/internal/kube"
)

// TestDeviceTaintRules: a rule taints devices that it selects, and the function for changes is called when it comes and when it
// goes, after the plugins have it.
func TestDeviceTaintRules(t *testing.T) {
	s := newStore(t, devices(1), deviceClaim("one"))
	rules, p, pool := s.client.ResourceV1().DeviceTaintRules(), pod("p", "device one"), "a"
	told := make(chan struct{}, 100)
	s.OnDevices(func() { told <- struct{}{} })
	<-told // of the claim that is there
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Pool: &pool},
		Taint:          resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule},
	}}
	if _, err := rules.Create(t.Context(), rule, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	<-told
	s.refuse(p, "a", "cannot allocate all claims")
	if err := rules.Delete(t.Context(), rule.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	<-told
	s.reserve(p)
}

func TestServesDeviceTaintRules(t *testing.T) {
	rules := metav1.APIResource{Name: "devicetaintrules"}
	both := []*metav1.APIResourceList{served("v1", metav1.APIResource{Name: "resourceclaims"}, rules)}
	forbidden := apierrors.NewForbidden(resourceapi.Resource("devicetaintrules"), "", errors.New("no such right"))
	for name, test := range map[string]struct {
		served []*metav1.APIResourceList
		// discovery and list are what the server answers to these in place of what it has.
		discovery, list error
		want            bool
		// warns and fails are parts of the warning and of the error.
		warns, fails string
	}{
		"1.37":                {served: both, want: true},
		"1.35":                {served: []*metav1.APIResourceList{served("v1", metav1.APIResource{Name: "resourceclaims"})}, list: errors.New("asked")},
		"as a beta alone":     {served: []*metav1.APIResourceList{served("v1"), served("v1beta2", rules)}, list: errors.New("asked")},
		"no devices at all":   {list: errors.New("asked")},
		"list forbidden":      {served: both, list: forbidden, warns: "list, watch on devicetaintrules.resource.k8s.io"},
		"discovery forbidden": {served: both, discovery: forbidden, warns: "get on /apis/resource.k8s.io/v1"},
		// A server that does not answer is not taken for an old one.
		"list fails":      {served: both, list: errors.New("busy"), fails: "busy"},
		"discovery fails": {served: both, discovery: errors.New("busy"), fails: "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.Resources = test.served
			answer(client, "get", "resource", test.discovery)
			answer(client, "list", "devicetaintrules", test.list)
			log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			got, err := kube.ServesDeviceTaintRules(klog.NewContext(t.Context(), log), client)
			if got != test.want {
				t.Errorf("served is %v, want %v", got, test.want)
			}
			if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("error %v, want %q", err, test.fails)
			}
			said := log.GetSink().(ktesting.Underlier).GetBuffer().String()
			if (said != "") != (test.warns != "") || !strings.Contains(said, test.warns) {
				t.Errorf("the log says %q, want %q", said, test.warns)
			}
		})
	}
}

func served(version string, resources ...metav1.APIResource) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: resourceapi.GroupName + "/" + version, APIResources: resources}
}

// answer lets client fail with err, unless that is nil.
func answer(client *fake.Clientset, verb, resource string, err error) {
	client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return err != nil, nil, err })
}
