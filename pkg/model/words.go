package model

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Words writes a vector for people, devices first: "8 × nvidia.com/gpu, 4 cpu and 2Gi memory". What is zero is left out.
func (d *Dimensions) Words(vector Resources) string {
	list := d.List(vector)
	var devices, words []string
	for name, amount := range list {
		if !native(name) {
			devices = append(devices, amount.String()+" × "+string(name))
		}
	}
	slices.SortFunc(devices, func(a, b string) int { return strings.Compare(a[strings.Index(a, "×"):], b[strings.Index(b, "×"):]) })
	for position := CPU; position <= Pods; position++ {
		name := d.Name(position)
		if amount, ok := list[name]; ok && position == Pods {
			words = append(words, amount.String()+" × place for a pod")
		} else if ok {
			words = append(words, amount.String()+" "+string(name))
		}
	}
	all := slices.Concat(devices, words)
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

func native(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return true
	}
	return false
}
