package krakenbuffer

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const (
	shardLen = 4 << 20
	callLen  = 32 << 10 // the buffer size io.Copy uses
)

var impls = []struct {
	name string
	make func(hint int) Buffer
}{
	{"before", func(h int) Buffer { return NewBefore(h) }},
	{"after", func(h int) Buffer { return NewAfter(h, false) }},
	{"after2x", func(h int) Buffer { return NewAfter(h, true) }},
}

var hints = []struct {
	name string
	of   func(total int) int
}{
	{"presized", func(t int) int { return t }},
	{"half_presized", func(t int) int { return t / 2 }},
	{"dynamic", func(int) int { return 0 }},
}

// shapes are the shards of one blob: Kraken's own, and smaller ones.
var shapes = []struct {
	name   string
	shards int
	len    int
}{
	{"1x4MiB", 1, shardLen},
	{"4x4MiB", 4, shardLen},
	{"10x4MiB", 10, shardLen},
	{"32x1MiB", 32, 1 << 20},
}

// fill writes one shard of n bytes at base in calls of len(src) bytes.
func fill(b Buffer, src []byte, base int64, n int) error {
	for done := 0; done < n; done += len(src) {
		if _, err := b.WriteAt(src, base+int64(done)); err != nil {
			return err
		}
	}
	return nil
}

func oneOp(b Buffer, src []byte, shards, n int) {
	var wg sync.WaitGroup
	wg.Add(shards)
	for s := range shards {
		go func() {
			defer wg.Done()
			if err := fill(b, src, int64(s)*int64(n), n); err != nil {
				panic(err)
			}
		}()
	}
	wg.Wait()
}

// contentions sums the mutex profile's event counts; `user` keeps only records
// whose stack goes through this package's WriteAt (not runtime-internal locks).
func contentions() (all, user int64) {
	n, _ := runtime.MutexProfile(nil)
	recs := make([]runtime.BlockProfileRecord, n+256)
	n, _ = runtime.MutexProfile(recs)
	for _, r := range recs[:n] {
		all += r.Count
		frames := runtime.CallersFrames(r.Stack())
		for {
			f, more := frames.Next()
			if strings.Contains(f.Function, "krakenbuffer.") && strings.HasSuffix(f.Function, ").WriteAt") {
				user += r.Count
				break
			}
			if !more {
				break
			}
		}
	}
	return all, user
}

// cpuNs is the process's user+system CPU time (GC included), which preemption
// by other processes does not inflate.
func cpuNs() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func benchmark(b *testing.B, call int) {
	src := make([]byte, call)
	rand.New(rand.NewSource(1)).Read(src)
	profile := os.Getenv("MUTEX") == "1"
	if profile {
		runtime.SetMutexProfileFraction(1)
	}
	for _, im := range impls {
		for _, h := range hints {
			for _, sh := range shapes {
				b.Run(fmt.Sprintf("impl=%s/hint=%s/shards=%s", im.name, h.name, sh.name), func(b *testing.B) {
					total := sh.shards * sh.len
					src := src[:min(call, sh.len)]
					b.SetBytes(int64(total))
					b.ReportAllocs()
					all0, user0 := contentions()
					cpu0 := cpuNs()
					b.ResetTimer()
					for range b.N {
						oneOp(im.make(h.of(total)), src, sh.shards, sh.len)
					}
					b.StopTimer()
					b.ReportMetric(float64(cpuNs()-cpu0)/float64(b.N), "cpu-ns/op")
					if profile {
						all1, user1 := contentions()
						b.ReportMetric(float64(all1-all0)/float64(b.N), "contend/op")
						b.ReportMetric(float64(user1-user0)/float64(b.N), "wr-contend/op")
					}
				})
			}
		}
	}
}

func BenchmarkCalls32K(b *testing.B) { benchmark(b, callLen) }
func BenchmarkCalls4M(b *testing.B)  { benchmark(b, shardLen) }

func TestContents(t *testing.T) {
	const shards, piece = 5, 10_000
	want := make([]byte, shards*shardLen)
	rand.New(rand.NewSource(7)).Read(want)
	for _, im := range impls {
		for _, h := range hints {
			t.Run(im.name+"/"+h.name, func(t *testing.T) {
				buf := im.make(h.of(len(want)))
				var wg sync.WaitGroup
				for s := range shards {
					wg.Add(1)
					go func() {
						defer wg.Done()
						part := want[s*shardLen : (s+1)*shardLen]
						// big calls first half, small calls in the tail
						if _, err := buf.WriteAt(part[:shardLen/2], int64(s*shardLen)); err != nil {
							t.Error(err)
						}
						for o := shardLen / 2; o < shardLen; o += piece * 20 {
							e := min(o+piece*20, shardLen)
							if _, err := buf.WriteAt(part[o:e], int64(s*shardLen+o)); err != nil {
								t.Error(err)
							}
						}
					}()
				}
				wg.Wait()
				if !bytes.Equal(buf.Bytes(), want) {
					t.Fatal("contents differ")
				}
				if _, err := buf.WriteAt([]byte{1}, -1); err == nil {
					t.Fatal("negative offset accepted")
				}
			})
		}
	}
}
