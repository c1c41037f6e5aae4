package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// TestAuthoritiesWithoutFiles: in an image without a file of certificate authorities there are some all the same.
func TestAuthoritiesWithoutFiles(t *testing.T) {
	if os.Getenv("AUTHORITIES") == "" { // Go looks for files once, when the program starts
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAuthoritiesWithoutFiles$")
		empty := t.TempDir()
		child.Env = append(os.Environ(), "AUTHORITIES=built-in", "SSL_CERT_FILE="+empty+"/none", "SSL_CERT_DIR="+empty)
		if text, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, text)
		}
		return
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	if pool.Equal(x509.NewCertPool()) {
		t.Error("there are no certificate authorities")
	}
}
