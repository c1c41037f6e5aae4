package scenario

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// readNeeds reads what the pod needs of a node besides capacity: ports, disks, claims, images, features.
func (d *draft) readNeeds(w word) (done bool, err error) {
	spec := &d.pod.Spec
	switch w.key {
	case "image":
		spec.Containers[0].Image = w.value
	case "ports":
		spec.Containers[0].Ports, err = ports(w.value)
	case "init.ports":
		d.initialPorts, err = ports(w.value)
	case "sidecar.ports":
		d.besidePorts, err = ports(w.value)
	case "claim":
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: w.value, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: w.value},
		}})
	case "disk":
		name, reads := strings.CutSuffix(w.value, ":ro")
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: reads},
		}})
	case "device":
		spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{Name: w.value, ResourceClaimName: &w.value})
	case "claims": // of a template that is named by what it asks for
		spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{Name: "devices", ResourceClaimTemplateName: &w.value})
	case "feature":
		err = d.feature(w.value)
	default:
		return false, nil
	}
	return true, err
}

// ports reads host ports: 8080, 8080/UDP, 8080/UDP@10.0.0.1, with commas between.
func ports(text string) ([]corev1.ContainerPort, error) {
	var all []corev1.ContainerPort
	for _, one := range strings.Split(text, ",") {
		about, ip, _ := strings.Cut(one, "@")
		port, protocol, found := strings.Cut(about, "/")
		if !found {
			protocol = string(corev1.ProtocolTCP)
		}
		n, err := number(word{"ports", port})
		if err != nil {
			return nil, err
		}
		all = append(all, corev1.ContainerPort{ContainerPort: n, HostPort: n, Protocol: corev1.Protocol(protocol), HostIP: ip})
	}
	return all, nil
}

// feature lets the pod use what only a kubelet that declares the feature can do.
func (d *draft) feature(name string) error {
	spec := &d.pod.Spec
	switch name {
	case "RestartAllContainersOnContainerExits":
		spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
			Action: corev1.ContainerRestartRuleActionRestartAllContainers,
		}}
	case "UserNamespacesHostNetworkSupport":
		own := false
		spec.HostNetwork, spec.HostUsers = true, &own
	default:
		return fmt.Errorf("feature: nothing is known that needs %q", name)
	}
	return nil
}
