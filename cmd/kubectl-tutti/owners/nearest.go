package owners

import "strings"

// Nearest returns the most similar name, empty when none is similar. Of several, the first.
func Nearest(name string, names []string) string {
	best, least := "", 1+max(1, len(name)/3)
	for _, candidate := range names {
		if candidate == name {
			continue
		}
		if d := Distance(strings.ToLower(name), strings.ToLower(candidate)); d < min(least, len(name)) {
			best, least = candidate, d
		}
	}
	return best
}

// Distance is the number of characters to insert, delete, change, or swap with the next one to turn a into b.
func Distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(above[j+1]+1, row[j]+1, above[j]+changed(a[i], b[j]))
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}

func changed(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}
