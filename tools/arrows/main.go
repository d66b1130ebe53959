// Arrows measures how the files of Go packages know each other. An arrow goes from a file to each other file of the
// module in which something is declared that the first one names: a constant, variable, type, function, method or
// field.
//
//	go run ./arrows [-C DIR] PATTERN...     from the folder tools
//
// For each package it prints the files and lines without tests, the arrows between its files, how many of these run
// back up, and the largest knot: files of which each reaches each other one along arrows. The last lines are the
// arrows of all packages together, and how long functions are. Arrows run back up against the order of files in which
// as few as possible do; that order is found by the heuristic of Eades, Lin and Smyth (1993), which is not always the
// best one.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/types"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	dir := flag.String("C", "..", "folder of the module")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	m, err := measure(*dir, patterns)
	if err != nil {
		log.Fatal("arrows: ", err)
	}
	m.print(os.Stdout)
}

// A graph has the arrows that leave each file, to others.
type graph map[string]map[string]bool

// A room is a package.
type room struct {
	path         string
	files, lines int
	graph        graph // within the package
}

// A measurement is what was counted of several packages.
type measurement struct {
	rooms []room
	all   graph
	spans []int // lines of functions, ascending
}

// measure loads packages and counts. Packages with errors are an error.
func measure(dir string, patterns []string) (*measurement, error) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Dir: dir}, patterns...)
	if err != nil {
		return nil, err
	}
	if len(loaded) == 0 {
		return nil, fmt.Errorf("no packages match %s in %s", strings.Join(patterns, " "), dir)
	}
	m := &measurement{all: make(graph)}
	for _, p := range loaded {
		for _, e := range p.Errors {
			return nil, fmt.Errorf("package %s: %w", p.PkgPath, e)
		}
		m.count(p)
	}
	slices.SortFunc(m.rooms, func(a, b room) int { return b.lines - a.lines })
	slices.Sort(m.spans)
	return m, nil
}

func (m *measurement) count(p *packages.Package) {
	r := room{path: p.PkgPath, graph: make(graph)}
	for _, file := range p.Syntax {
		tokens := p.Fset.File(file.FileStart)
		from := tokens.Name()
		r.files++
		r.lines += tokens.LineCount()
		r.graph[from], m.all[from] = make(map[string]bool), make(map[string]bool)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				m.spans = append(m.spans, tokens.Line(n.End())-tokens.Line(n.Pos())+1)
			case *ast.Ident:
				if to := declaredIn(p, n); to != "" && to != from {
					m.all[from][to] = true
					if filepath.Dir(to) == filepath.Dir(from) {
						r.graph[from][to] = true
					}
				}
			}
			return true
		})
	}
	m.rooms = append(m.rooms, r)
}

// declaredIn returns the file in which what an identifier uses is declared; empty if that is of another module, or
// local to a function.
func declaredIn(p *packages.Package, id *ast.Ident) string {
	o := p.TypesInfo.Uses[id]
	if o == nil || o.Pkg() == nil {
		return ""
	}
	switch o := o.(type) {
	case *types.PkgName, *types.Label:
		return ""
	case *types.Var:
		if !o.IsField() && o.Parent() != o.Pkg().Scope() {
			return ""
		}
	case *types.Func:
	default:
		if o.Parent() != o.Pkg().Scope() {
			return ""
		}
	}
	file := p.Fset.Position(o.Pos()).Filename
	root := p.Module
	if root == nil || !strings.HasPrefix(file, root.Dir+string(filepath.Separator)) {
		return ""
	}
	return file
}

// arrows returns how many there are.
func (g graph) arrows() (n int) {
	for _, to := range g {
		n += len(to)
	}
	return n
}

// back returns how many arrows run against the order that the heuristic finds: it takes sinks from the end, sources
// from the beginning, and else the file with most arrows out over in.
func (g graph) back() (n int) {
	out, in := make(graph), make(graph)
	for from, to := range g {
		for other := range to {
			if _, known := g[other]; known {
				link(out, from, other)
				link(in, other, from)
			}
		}
	}
	left := maps.Clone(g)
	var first, last []string
	for len(left) > 0 {
		next, side := "", 0
		for _, f := range slices.Sorted(maps.Keys(left)) {
			switch {
			case len(out[f]) == 0:
				next, side = f, 1
			case len(in[f]) == 0:
				next, side = f, -1
			case next == "" || len(out[f])-len(in[f]) > len(out[next])-len(in[next]):
				next = f
			}
			if side != 0 {
				break
			}
		}
		if side == 1 {
			last = append(last, next)
		} else {
			first = append(first, next)
		}
		for other := range out[next] {
			delete(in[other], next)
		}
		for other := range in[next] {
			delete(out[other], next)
		}
		delete(left, next)
	}
	slices.Reverse(last)
	place := make(map[string]int)
	for i, f := range append(first, last...) {
		place[f] = i
	}
	for from, to := range g {
		for other := range to {
			if at, known := place[other]; known && at < place[from] {
				n++
			}
		}
	}
	return n
}

func link(g graph, from, to string) {
	if g[from] == nil {
		g[from] = make(map[string]bool)
	}
	g[from][to] = true
}

// knot returns the size of the largest strongly connected component (Tarjan 1972).
func (g graph) knot() (largest int) {
	index, low, on := make(map[string]int), make(map[string]int), make(map[string]bool)
	var stack []string
	var visit func(string)
	visit = func(f string) {
		index[f] = len(index) + 1
		low[f] = index[f]
		stack, on[f] = append(stack, f), true
		for other := range g[f] {
			if index[other] == 0 {
				visit(other)
				low[f] = min(low[f], low[other])
			} else if on[other] {
				low[f] = min(low[f], index[other])
			}
		}
		if low[f] != index[f] {
			return
		}
		for size := 1; ; size++ {
			top := stack[len(stack)-1]
			stack, on[top] = stack[:len(stack)-1], false
			if top == f {
				largest = max(largest, size)
				return
			}
		}
	}
	for f := range g {
		if index[f] == 0 {
			visit(f)
		}
	}
	return largest
}

func (m *measurement) print(w *os.File) {
	fmt.Fprintf(w, "%-50s %6s %7s %7s %8s %5s\n", "package", "files", "lines", "arrows", "back up", "knot")
	for _, r := range m.rooms {
		fmt.Fprintf(w, "%-50s %6d %7d %7d %8d %5d\n", r.path, r.files, r.lines, r.graph.arrows(), r.graph.back(), r.graph.knot())
	}
	fmt.Fprintf(w, "all files: %d, arrows %d, back up %d, largest knot %d\n", len(m.all), m.all.arrows(), m.all.back(), m.all.knot())
	if n := len(m.spans); n > 0 {
		fmt.Fprintf(w, "functions: %d, lines: median %d, p95 %d, longest %d\n", n, m.spans[n/2], m.spans[n*95/100], m.spans[n-1])
	}
}
