// Package node starts real nodes on this machine: each has a containerd, a kubelet and a kube-proxy of its own, which run real
// containers. A node is a set of Linux namespaces (mount, network, process ids), as a container is, so that every program in it
// has its usual paths and ports, and nothing of it is left in the machine's: when the first process of the namespaces ends, the
// kernel ends all others, its containers among them, and takes down its mounts and its network.
//
// The network of a cluster is a bridge with addresses of 198.18.0.0/15, which are reserved for tests (RFC 2544). The machine has
// the first one, the API server's, and each node the next ones; the pods of a node have a subnet that the other nodes and the
// machine reach through it. No packet leaves the machine.
//
// What remains in the machine while nodes run is the bridge, a control group for each node, and a folder; they are removed in the
// end, and by the next Network where the program that made them was killed. It needs Linux and root; Missing says what else.
//
// The package knows nothing of the control plane: lab/cluster gives each kubelet a kubeconfig.
package node
