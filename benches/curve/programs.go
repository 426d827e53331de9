// The programs of benches/peers in Go: programs gcbench, programs bintrees DEPTH. One goroutine runs the program.
//
// The memory is set in the environment: GOGC=off GOMEMLIMIT=BYTES. The worst pause is the longest time for which the runtime stopped all
// goroutines. It is the upper end of a bucket of the runtime's histogram. The collector works concurrently, and makes goroutines that allocate
// help; that time is not in it.
package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A node of binary-trees.
type Pair struct {
	left, right *Pair
}

func build(depth int) *Pair {
	pair := new(Pair)
	if depth > 0 {
		pair.left = build(depth - 1)
		pair.right = build(depth - 1)
	}
	return pair
}

func (pair *Pair) count() int {
	if pair.left == nil {
		return 1
	}
	return 1 + pair.left.count() + pair.right.count()
}

func bintrees(maxDepth int) int {
	sum := build(maxDepth + 1).count()
	longLived := build(maxDepth)
	for depth := 4; depth <= maxDepth; depth += 4 {
		for trees := 1 << (maxDepth - depth + 4); trees > 0; trees-- {
			sum += build(depth).count()
		}
	}
	return sum + longLived.count()
}

// A node of gcbench.
type Node struct {
	left, right *Node
	i, j        int32
}

const (
	stretchDepth   = 18
	longLivedDepth = 16
	arrayLength    = 500000
)

// Keeps the compiler from leaving out the trees that the program drops.
var result *Node

func populate(depth int, node *Node) {
	if depth == 0 {
		return
	}
	node.left = new(Node)
	node.right = new(Node)
	populate(depth-1, node.left)
	populate(depth-1, node.right)
}

func makeTree(depth int) *Node {
	if depth == 0 {
		return new(Node)
	}
	left := makeTree(depth - 1)
	right := makeTree(depth - 1)
	return &Node{left: left, right: right}
}

func shortLived(depth int) {
	treeSize := func(depth int) int { return 1<<(depth+1) - 1 }
	trees := 2 * treeSize(stretchDepth) / treeSize(depth)
	for i := 0; i < trees; i++ {
		result = new(Node)
		populate(depth, result)
		result = nil
	}
	for i := 0; i < trees; i++ {
		result = makeTree(depth)
		result = nil
	}
}

func gcbench() {
	result = makeTree(stretchDepth)
	result = nil
	longLived := new(Node)
	populate(longLivedDepth, longLived)
	array := make([]float64, arrayLength)
	for i := 0; i < arrayLength/2; i++ {
		array[i] = 1.0 / float64(i+1)
	}
	for depth := 4; depth <= 16; depth += 2 {
		shortLived(depth)
	}
	if longLived.left == nil || array[1000] != 1.0/1001 {
		panic("a long-lived object was lost")
	}
	runtime.KeepAlive(longLived)
	runtime.KeepAlive(array)
}

func worstPauseMs() float64 {
	sample := []metrics.Sample{{Name: "/gc/pauses:seconds"}}
	metrics.Read(sample)
	histogram := sample[0].Value.Float64Histogram()
	worst := 0.0
	for i, count := range histogram.Counts {
		if count > 0 {
			worst = histogram.Buckets[i+1]
			if math.IsInf(worst, 1) {
				worst = histogram.Buckets[i]
			}
		}
	}
	return worst * 1e3
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func peakMb() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if rest := strings.TrimPrefix(line, "VmHWM:"); rest != line {
			kilobytes, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				panic(err)
			}
			return kilobytes / 1024
		}
	}
	panic("/proc/self/status has no line VmHWM")
}

func main() {
	start := time.Now()
	check := 0
	switch {
	case len(os.Args) == 2 && os.Args[1] == "gcbench":
		gcbench()
	case len(os.Args) == 3 && os.Args[1] == "bintrees":
		depth, err := strconv.Atoi(os.Args[2])
		if err != nil {
			panic(err)
		}
		check = bintrees(depth)
	default:
		fmt.Fprintln(os.Stderr, "usage: programs gcbench | programs bintrees DEPTH")
		os.Exit(2)
	}
	wall := time.Since(start)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Printf("wall_ms=%.2f cpu_s=%.3f peak_rss_mb=%.1f collections=%d worst_pause_ms=%.3f check=%d\n",
		float64(wall.Nanoseconds())/1e6, cpuSeconds(), peakMb(), memory.NumGC, worstPauseMs(), check)
}
