package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/store"
)

// Fleet compares the nodes that announce themselves in the table.
func Fleet(list func(context.Context) ([]store.Node, error), now func() time.Time) Check {
	return Check{Name: "fleet", Run: func(ctx context.Context) []Finding {
		nodes, err := list(ctx)
		switch {
		case err != nil:
			return []Finding{{Severity: Warning, What: "the nodes cannot be listed", Evidence: []string{err.Error()}, Do: "see the findings about the table"}}
		case len(nodes) == 0:
			return []Finding{{Severity: Note, What: "no server is running on this table", Do: "start one with isr serve; a server is listed some seconds later"}}
		}
		found := differences(nodes)
		for _, n := range nodes {
			if d := n.SeenAt.Sub(now()); d >= skewWarning {
				found = append(found, judgeSkew("the node "+n.Name, d, "it announced itself at "+n.SeenAt.UTC().Format(time.RFC3339)))
			}
		}
		if len(found) > 0 {
			return found
		}
		count := fmt.Sprintf("%d nodes have", len(nodes))
		if len(nodes) == 1 {
			count = "1 node has"
		}
		return []Finding{{Severity: OK, What: fmt.Sprintf("%s version %s and configuration %s", count, labelOf(nodes[0].Release), labelOf(nodes[0].Config))}}
	}}
}

// differences compares versions and configurations.
func differences(nodes []store.Node) (found []Finding) {
	for _, kind := range []struct {
		name, do string
		of       func(store.Node) string
	}{
		{"versions", "finish the deployment: start the others with the newer version", func(n store.Node) string { return n.Release }},
		{"configurations", "give all nodes the same file and flags, then isr reload, or restart those that need it", func(n store.Node) string { return n.Config }},
	} {
		by := make(map[string][]string)
		for _, n := range nodes {
			by[labelOf(kind.of(n))] = append(by[labelOf(kind.of(n))], n.Name)
		}
		if len(by) < 2 {
			continue
		}
		f := Finding{Severity: Warning, What: fmt.Sprintf("the %d nodes run %d %s", len(nodes), len(by), kind.name), Do: kind.do}
		for _, value := range slices.Sorted(maps.Keys(by)) {
			names := by[value]
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s", value, listed(names, 5)))
		}
		found = append(found, f)
	}
	return found
}

// listed joins the first names of a list.
func listed(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// labelOf names what a node has not announced, as older versions do not.
func labelOf(text string) string {
	if text == "" {
		return "(not announced)"
	}
	return text
}
