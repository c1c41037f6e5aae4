package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestANetworkRemovesWhatAKilledProgramLeft: its bridge, the links and control groups of its nodes, and their files. The kernel
// takes its lock away, as closing the file does.
func TestANetworkRemovesWhatAKilledProgramLeft(t *testing.T) {
	if missing := Missing(); len(missing) > 0 {
		t.Skipf("real nodes need %s", strings.Join(missing, ", "))
	}
	killed, err := NewNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"real-0", "real-0/kubepods/pod1"} {
		if err := makeGroup(killed.bridge() + "/" + group); err != nil {
			t.Fatal(err)
		}
	}
	if err := ip(t.Context(), "", "link add "+killed.link("0")+" type veth peer name "+killed.link("0")+"x"); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(killed.dir, "real-0")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	killed.lock.Close()

	next, err := NewNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if next.number != killed.number {
		t.Fatalf("the next network is %d, and %d is free", next.number, killed.number)
	}
	for _, path := range []string{left, "/sys/class/net/" + killed.link("0"), filepath.Join(hierarchies()[0], killed.bridge())} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	other, err := NewNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if other.number == next.number || other.Address() == next.Address() {
		t.Errorf("two programs have the network %d", other.number)
	}
	for _, n := range []*Network{next, other} {
		if err := n.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat("/sys/class/net/" + n.bridge()); !os.IsNotExist(err) {
			t.Errorf("the bridge %s is still there: %v", n.bridge(), err)
		}
	}
}
