package model

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

func TestVectorReadsAmounts(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	for name, c := range map[string]struct {
		resource corev1.ResourceName
		quantity string
		want     int64
		bad      bool
	}{
		"cores":                     {corev1.ResourceCPU, "2", 2000, false},
		"thousandths":               {corev1.ResourceCPU, "1500m", 1500, false},
		"less than a thousandth":    {corev1.ResourceCPU, "1u", 1, false},
		"fraction of a core":        {corev1.ResourceCPU, "0.1", 100, false},
		"bytes":                     {corev1.ResourceMemory, "1Gi", 1 << 30, false},
		"half a byte is a byte":     {corev1.ResourceMemory, "500m", 1, false},
		"devices":                   {gpu, "8", 8, false},
		"nothing":                   {gpu, "0", 0, false},
		"the largest amount":        {corev1.ResourceMemory, "1Pi", MaxAmount, false},
		"above the largest":         {corev1.ResourceMemory, "1125899906842625", MaxAmount, true},
		"cores beyond an int64":     {corev1.ResourceCPU, "9223372036854775807", MaxAmount, true},
		"cores whose milli wrap":    {corev1.ResourceCPU, "18446744073709552", MaxAmount, true},
		"bytes beyond an int64":     {corev1.ResourceMemory, "100E", MaxAmount, true},
		"cores in the exponent":     {corev1.ResourceCPU, "1e30", MaxAmount, true},
		"a very small part":         {corev1.ResourceCPU, "1e-9", 1, false},
		"the most cores":            {corev1.ResourceCPU, "1125899906842624m", MaxAmount, false},
		"one thousandth more":       {corev1.ResourceCPU, "1125899906842625m", MaxAmount, true},
		"negative":                  {corev1.ResourceMemory, "-1", 0, true},
		"negative cores":            {corev1.ResourceCPU, "-100m", 0, true},
		"negative beyond an int64":  {corev1.ResourceMemory, "-100E", 0, true},
		"negative cores, very many": {corev1.ResourceCPU, "-9223372036854775807", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDimensions()
			vector, bad, ok := d.Vector(corev1.ResourceList{c.resource: resource.MustParse(c.quantity)})
			if got := vector.At(d.Index(c.resource)); got != c.want {
				t.Errorf("amount is %d, want %d", got, c.want)
			}
			if ok == c.bad || (bad != "") != c.bad {
				t.Errorf("ok is %v and bad %q, want bad: %v", ok, bad, c.bad)
			}
		})
	}
}

// TestVectorPositions: new resources get positions in name order, whatever the order of the map.
func TestVectorPositions(t *testing.T) {
	list := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{"e/5", "a/1", "d/4", "b/2", "c/3", "f/6", "g/7", "h/8"} {
		list[name] = resource.MustParse("1")
	}
	for range 50 {
		d := NewDimensions()
		d.Vector(list)
		for i, want := range []corev1.ResourceName{
			"cpu", "memory", "ephemeral-storage", "pods", "", "a/1", "b/2", "c/3", "d/4", "e/5", "f/6", "g/7", "h/8", "",
		} {
			if got := d.Name(i); got != want {
				t.Fatalf("position %d is %q, want %q", i, got, want)
			}
		}
	}
}

func TestDimensionsOnlyGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := NewDimensions()
		known := map[corev1.ResourceName]int{
			corev1.ResourceCPU: CPU, corev1.ResourceMemory: Memory,
			corev1.ResourceEphemeralStorage: EphemeralStorage, corev1.ResourcePods: Pods, "": Unoffered,
		}
		for _, name := range rapid.SliceOf(rapid.StringMatching(`[a-c]{1,2}`)).Draw(t, "names") {
			position := d.Index(corev1.ResourceName(name))
			if before, ok := known[corev1.ResourceName(name)]; ok && before != position {
				t.Fatalf("%s moved from %d to %d", name, before, position)
			}
			known[corev1.ResourceName(name)] = position
		}
		if d.Len() != len(known) {
			t.Fatalf("%d dimensions for %d names", d.Len(), len(known))
		}
		for name, position := range known {
			if d.Name(position) != name {
				t.Fatalf("position %d is %q, want %q", position, d.Name(position), name)
			}
		}
	})
}

func amounts() *rapid.Generator[Resources] {
	return rapid.Custom(func(t *rapid.T) Resources {
		return rapid.SliceOfN(rapid.Int64Range(-MaxAmount, MaxAmount), 0, 7).Draw(t, "amounts")
	})
}

func TestResourcesArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := amounts().Draw(t, "a"), amounts().Draw(t, "b")
		before := b.Clone()
		sum := a.Clone()
		sum.Add(b)
		for i := range 9 {
			if sum.At(i) != a.At(i)+b.At(i) {
				t.Fatalf("position %d: %d + %d = %d", i, a.At(i), b.At(i), sum.At(i))
			}
		}
		back := sum.Clone()
		back.Sub(b)
		if !back.Equal(a) || !a.Equal(back) {
			t.Fatalf("%v + %v - %v = %v", a, b, b, back)
		}
		if !b.Equal(before) {
			t.Fatal("the other vector was changed")
		}
		longer := append(a.Clone(), 0, 0)
		if !longer.Equal(a) || !a.Equal(longer) {
			t.Fatalf("%v and %v differ", longer, a)
		}
		longer.Set(9, 1)
		if longer.Equal(a) || a.Equal(longer) {
			t.Fatalf("%v and %v are equal", longer, a)
		}
	})
}

func TestResourcesCloneIsApart(t *testing.T) {
	a := Resources{1, 2}
	b := a.Clone()
	b.Add(Resources{1, 1, 1})
	if !a.Equal(Resources{1, 2}) {
		t.Fatalf("the original became %v", a)
	}
	if Resources(nil).Clone().Equal(a) || !Resources(nil).Clone().Equal(nil) {
		t.Fatal("nil is the empty vector")
	}
}

// TestSumsStayExact is invariant I19: the sum of as many of the largest amounts as MaxAmount documents does not overflow.
func TestSumsStayExact(t *testing.T) {
	var sum Resources
	for range 8191 {
		sum.Add(Resources{MaxAmount})
	}
	if sum.At(0) <= 0 || sum.At(0)/8191 != MaxAmount || math.MaxInt64-sum.At(0) < 0 {
		t.Fatalf("8191 times the largest amount is %d", sum.At(0))
	}
}

// TestTotalsHaveNoNegativeAmount: the total is at most the largest, in whatever order the amounts come.
func TestTotalsHaveNoNegativeAmount(t *testing.T) {
	for _, c := range []struct{ amounts, want []int64 }{
		{[]int64{-2, 1}, []int64{1}},
		{[]int64{1, -2}, []int64{1}},
		{[]int64{math.MaxInt64 - 1, 5, -3, 5}, []int64{math.MaxInt64}},
	} {
		var total Resources
		for _, amount := range c.amounts {
			total.AddCapped(Resources{amount})
		}
		if !total.Equal(c.want) {
			t.Errorf("the total of %v is %v instead of %v", c.amounts, total, c.want)
		}
	}
}
