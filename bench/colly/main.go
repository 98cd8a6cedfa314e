// Colly follows every link of the seed's host and stores nothing, as the measure of bench/first.
//
//	colly URL PARALLELISM
//
// It prints one line of JSON: pages that answered 200, CPU seconds of this process, wall seconds,
// the peak of resident memory in MiB. Fragments are taken off, which Colly takes for other pages,
// and files that LxmlLinkExtractor leaves out are left out.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gocolly/colly/v2"
)

const ignored = " 7z apk bin bz2 css dmg doc docx exe gif gz ico iso jar jpeg jpg js json mp3 mp4" +
	" odt ogg pdf png ppt pptx rar svg tar tgz webm webp xls xlsx zip "

func main() {
	seed, err := url.Parse(os.Args[1])
	fail(err)
	parallelism, err := strconv.Atoi(os.Args[2])
	fail(err)

	var pages, failures atomic.Int64
	collector := colly.NewCollector(colly.Async(true))
	// Go keeps two idle connections a host: it would open one for nearly each page.
	collector.WithTransport(&http.Transport{MaxIdleConnsPerHost: parallelism})
	fail(collector.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: parallelism}))
	collector.OnResponse(func(*colly.Response) { pages.Add(1) })
	collector.OnError(func(*colly.Response, error) { failures.Add(1) })
	collector.OnHTML("a[href]", func(element *colly.HTMLElement) {
		link, err := url.Parse(element.Request.AbsoluteURL(element.Attr("href")))
		if err != nil || link.Host != seed.Host {
			return
		}
		extension := strings.TrimPrefix(strings.ToLower(path.Ext(link.Path)), ".")
		if extension != "" && strings.Contains(ignored, " "+extension+" ") {
			return
		}
		link.Fragment, link.RawFragment = "", ""
		_ = element.Request.Visit(link.String()) // the error says that it was visited already
	})

	begun := time.Now()
	fail(collector.Visit(seed.String()))
	collector.Wait()
	wall := time.Since(begun)
	var used syscall.Rusage
	fail(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	fail(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"pages":  pages.Load(),
		"cpu":    time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds(),
		"wall":   wall.Seconds(),
		"rss":    float64(used.Maxrss) / 1024,
		"failed": failures.Load(),
	}))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
