package diagnose

import (
	"fmt"
	"strings"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// Places says of each entry in which domains the members are, and where fewer might have been enough: "rack: 3 domains (b1/r1,
// b1/r2, b1/r3), 2 might do". Least is a lower bound, so that no more can be said.
func Places(topology []v1alpha1.TopologyStatus) (places []string) {
	for i := range topology {
		entry := &topology[i]
		text := entry.Level
		if len(entry.Roles) > 0 {
			text += " (role " + strings.Join(entry.Roles, ", ") + ")"
		}
		names := strings.Join(entry.Names, ", ")
		if more := int(entry.Domains) - len(entry.Names); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		switch {
		case entry.Domains == 0:
			text += ": in none"
		case entry.Domains == 1:
			text += ": " + names
		default:
			text += fmt.Sprintf(": %d domains (%s)", entry.Domains, names)
		}
		if entry.Least < entry.Domains {
			text += fmt.Sprintf(", %d might do", entry.Least)
		}
		places = append(places, text)
	}
	return places
}
