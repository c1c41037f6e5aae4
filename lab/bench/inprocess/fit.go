package inprocess

import (
	"errors"
	"math"
)

// Exponent fits cost = c·size^e by least squares of the logarithms, and returns e: 0 when size does not matter, 1 when
// twice the size costs twice as much. Sizes and costs must be positive, and there must be two different sizes.
func Exponent(sizes, costs []float64) (float64, error) {
	if len(sizes) != len(costs) {
		return 0, errors.New("fit: as many costs as sizes are needed")
	}
	var n, sx, sy, sxx, sxy float64
	for i, size := range sizes {
		if size <= 0 || costs[i] <= 0 {
			return 0, errors.New("fit: sizes and costs must be positive")
		}
		x, y := math.Log(size), math.Log(costs[i])
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	spread := n*sxx - sx*sx
	if n < 2 || spread < 1e-9 {
		return 0, errors.New("fit: two different sizes are needed")
	}
	return (n*sxy - sx*sy) / spread, nil
}
