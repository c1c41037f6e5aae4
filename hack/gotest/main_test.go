package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := &report{out: &out, output: map[string][]string{}}
	for line := range strings.SplitSeq(`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: no kernel accounts\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"said in silence\n"}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":29.9}
{"Action":"pass","Package":"p","Test":"TestE/part","Elapsed":44.6}
{"Action":"pass","Package":"p","Test":"TestE","Elapsed":44.6}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
{"Action":"build-output","ImportPath":"q","Output":"q.go:1: syntax error\n"}
{"Action":"output","Package":"r","Test":"TestC","Output":"wrong\n"}
{"Action":"output","Package":"r","Test":"TestC","Output":"    c_test.go:7: 1, want 2\n"}
{"Action":"output","Package":"r","Test":"TestC","Output":"    log.go:9: a line of a log\n"}
{"Action":"fail","Package":"r","Test":"TestC"}
{"Action":"output","Package":"r","Test":"TestD","Output":"panic: no end\n"}
{"Action":"output","Package":"r","Output":"FAIL\tr\t0.1s\n"}
{"Action":"fail","Package":"r"}
no JSON`, "\n") {
		r.take([]byte(line))
	}
	if err := r.record(""); err != nil {
		t.Fatal(err)
	}
	want := "slow: p TestE: 45 s\nok  \tp\t0.1s\nq.go:1: syntax error\nwrong\n    c_test.go:7: 1, want 2\n    log.go:9: a line of a log\n" +
		"FAIL\tr\t0.1s\npanic: no end\nno JSON\n" +
		"failed: r TestC: c_test.go:7: 1, want 2\nfailed: r TestD: panic: no end\nskipped: p TestA: a_test.go:7: no kernel accounts\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}
