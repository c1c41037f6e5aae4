package kubeframework_test

import (
	"errors"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tutti-sched/tutti/pkg/cluster/kubeframework"
)

// TestDeviceTaintRules: a rule taints devices that it selects, and whoever waits is told when it comes and when it goes, after
// the plugins know.
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
	for name, test := range map[string]struct {
		served []*metav1.APIResourceList
		want   bool
	}{
		"1.37":              {[]*metav1.APIResourceList{served("v1", metav1.APIResource{Name: "resourceclaims"}, rules)}, true},
		"1.35":              {[]*metav1.APIResourceList{served("v1", metav1.APIResource{Name: "resourceclaims"})}, false},
		"as a beta alone":   {[]*metav1.APIResourceList{served("v1"), served("v1beta2", rules)}, false},
		"no devices at all": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.Resources = test.served
			got, err := kubeframework.ServesDeviceTaintRules(client.Discovery())
			if err != nil || got != test.want {
				t.Errorf("served is %v, %v, want %v", got, err, test.want)
			}
		})
	}
}

func served(version string, resources ...metav1.APIResource) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: resourceapi.GroupName + "/" + version, APIResources: resources}
}

// TestWhetherRulesAreServedIsUnknown: a server that does not answer is not taken for an old one.
func TestWhetherRulesAreServedIsUnknown(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("busy")
	})
	if _, err := kubeframework.ServesDeviceTaintRules(client.Discovery()); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("error %v, want the server's", err)
	}
}
