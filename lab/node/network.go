package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// networks is how many clusters with real nodes a machine can have at the same time; most is how many nodes one can have. Pods of
// node i of network n have the addresses 198.19.(most*n+i).0/24.
const (
	networks = 32
	most     = 8
)

// Network is the network of one cluster: a bridge of this machine. It is one program's until Close, or until that program ends.
type Network struct {
	number int
	lock   *os.File
	dir    string
}

// NewNetwork takes a network that no running program has, and removes what is left of the one that had it before.
func NewNetwork(ctx context.Context) (*Network, error) {
	base := filepath.Join(os.TempDir(), "tutti-lab-nodes")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, fmt.Errorf("folder of nodes: %w", err)
	}
	for number := range networks {
		lock, err := os.OpenFile(filepath.Join(base, fmt.Sprintf("%d.lock", number)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock of a network: %w", err)
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			lock.Close()
			continue // another program has it
		}
		n := &Network{number: number, lock: lock, dir: filepath.Join(base, fmt.Sprint(number))}
		if err := errors.Join(n.remove(ctx), n.make(ctx)); err != nil {
			lock.Close()
			return nil, fmt.Errorf("network %s: %w", n.bridge(), err)
		}
		return n, nil
	}
	return nil, fmt.Errorf("all %d networks of nodes are in use", networks)
}

// Address is the machine's own address in the network, which its nodes and their pods reach.
func (n *Network) Address() string { return n.address(1) }

// Close removes the bridge, the control groups of its nodes and their files. The nodes must have been stopped.
func (n *Network) Close(ctx context.Context) error {
	defer n.lock.Close()
	return n.remove(ctx)
}

func (n *Network) make(ctx context.Context) error {
	return errors.Join(os.MkdirAll(n.dir, 0o700), ip(ctx, "",
		"link add "+n.bridge()+" type bridge",
		fmt.Sprintf("address add %s/24 dev %s", n.Address(), n.bridge()),
		"link set "+n.bridge()+" up",
	))
}

// remove removes what there is of the network. That there is nothing is no error. The kernel removes the links of a node some
// time after its last process, so they are removed here.
func (n *Network) remove(ctx context.Context) error {
	links, _ := filepath.Glob("/sys/class/net/" + n.link("*")) // the pattern is well-formed
	bridge, _ := filepath.Glob("/sys/class/net/" + n.bridge())
	var failed error
	for _, path := range append(links, bridge...) {
		if err := ip(ctx, "", "link delete "+filepath.Base(path)); err != nil {
			if _, gone := os.Stat(path); gone == nil {
				failed = errors.Join(failed, err)
			}
		}
	}
	return errors.Join(failed, removeGroups(ctx, n.bridge()), os.RemoveAll(n.dir))
}

// bridge is the name of the bridge, and of the control group above those of the nodes.
func (n *Network) bridge() string { return fmt.Sprintf("tutti-lab%d", n.number) }

// link is the name of the machine's end of the link to a node.
func (n *Network) link(node string) string { return n.bridge() + "n" + node }

func (n *Network) address(host int) string { return fmt.Sprintf("198.18.%d.%d", n.number, host) }

// pods is the subnet of the pods of a node.
func (n *Network) pods(node int) string { return fmt.Sprintf("198.19.%d.0/24", most*n.number+node) }

// ip runs commands of ip(8), one in each line, in the network namespace of a process, or the machine's if that is empty.
func ip(ctx context.Context, process string, commands ...string) error {
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	if process != "" {
		cmd = exec.CommandContext(ctx, "nsenter", "--net", "--target", process, "ip", "-batch", "-")
	}
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
