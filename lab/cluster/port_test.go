package cluster

import (
	"net"
	"testing"
)

// TestNoPortIsHandedOutTwice, nor one that a process listens on.
func TestNoPortIsHandedOutTwice(t *testing.T) {
	first, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", Loopback(first+1))
	if err != nil {
		t.Logf("the next one is in use already: %v", err)
	} else {
		defer taken.Close()
	}
	known := map[int]bool{first: true, first + 1: true}
	for range 100 {
		port, err := FreePort()
		if err != nil || known[port] || port < firstPort || port > lastPort {
			t.Fatalf("port %d, %v; handed out or taken before: %v", port, err, known)
		}
		known[port] = true
	}
}
