package inprocess

import ("testing";"time";"fmt";"runtime"
	"github.com/tutti-sched/tutti/pkg/framework"
	config "github.com/tutti-sched/tutti/apis/config/v1alpha1")

func TestTmp(t *testing.T) {
	trees := "topologies:\n- name: f\n  levels: [{name: block, label: block}, {name: rack, label: rack}]\n- name: n\n  levels: [{name: clique, label: clique}]\n"
	var worlds []*world
	for _, c := range []string{string(config.DefaultYAML())+trees, string(config.DefaultYAML())+"  - name: topology\n"+trees} {
		Conf = c
		w, err := newWorld(identical(10_000, 0, 10_000, 1))
		if err != nil { t.Fatal(err) }
		if err := w.open(); err != nil { t.Fatal(err) }
		worlds = append(worlds, w)
	}
	for _, kept := range []bool{false, true} {
		best := []time.Duration{time.Hour, time.Hour}
		for range 12 {
			for i, w := range worlds {
				if kept { w.renewPending(); w.apply(w.pending, false) } else { w.arrive() }
				runtime.GC()
				c := w.run()
				best[i] = min(best[i], c.session)
				if c.binds != 10_000 { t.Fatal(c) }
				w.leave()
				_ = framework.Cache{}
			}
		}
		fmt.Println("kept", kept, best, float64(best[1])/float64(best[0]))
	}
}
