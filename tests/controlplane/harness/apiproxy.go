package harness

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fate is what the proxy does with one request.
type Fate int

const (
	Pass       Fate = iota /* forward it and return the answer */
	LoseAnswer             /* forward it, then cut the connection instead of answering */
	LoseAsk                /* cut the connection without forwarding */
)

// Delay says how the proxy delays a request, or turns it away; LoseAsk takes precedence.
type Delay struct {
	Wait       time.Duration /* before it is forwarded */
	RetryAfter int           /* in seconds; > 0: answer 429 instead of forwarding */
}

// APIProxy stands between milligpud and the API server, terminates TLS, and misbehaves on demand.
type APIProxy struct {
	URL    string
	CAFile string

	server *http.Server
	mutex  sync.Mutex
	decide func(*http.Request) Fate
	slow   func(*http.Request) Delay
	held   chan struct{} /* closed while watches flow */
	cuts   map[int]context.CancelFunc
	next   int
	gone   int
}

var errLost = errors.New("the proxy lost this answer")

// StartAPIProxy starts a proxy in front of the cluster's API server.
func (c *Cluster) StartAPIProxy(name string) (*APIProxy, error) {
	authority, err := NewAuthority(c.Dir, name+"-ca")
	if err != nil {
		return nil, err
	}
	certFile, keyFile, err := authority.Issue(name)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &APIProxy{URL: "https://" + listener.Addr().String(), CAFile: filepath.Clean(authority.File),
		held: make(chan struct{}), cuts: map[int]context.CancelFunc{}}
	close(p.held)
	target, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	inner := c.Admin.client.Transport.(*http.Transport).TLSClientConfig
	p.server = &http.Server{Handler: p.handler(target, inner.Clone()), ErrorLog: quiet()}
	go p.server.ServeTLS(listener, certFile, keyFile)
	return p, nil
}

func isWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "1" || watch == "true"
}

func (p *APIProxy) handler(target *url.URL, inner *tls.Config) http.Handler {
	reverse := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{TLSClientConfig: inner, MaxIdleConnsPerHost: 16},
		FlushInterval: -1,
		ErrorLog:      quiet(),
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Context().Value(loseKey{}) != nil {
				return errLost
			}
			if isWatch(r.Request) {
				r.Body = &gate{ReadCloser: r.Body, proxy: p, stop: r.Request.Context().Done()}
			}
			p.countGone(r)
			return nil
		},
		/* break the connection, as a broken network would, instead of answering 502 */
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		fate := p.admit(r, cancel)
		if fate.id >= 0 {
			defer p.forget(fate.id)
		}
		if fate.fate == LoseAsk {
			panic(http.ErrAbortHandler)
		}
		if !p.wait(w, r) {
			return
		}
		if fate.fate == LoseAnswer {
			ctx = context.WithValue(ctx, loseKey{}, true)
		}
		reverse.ServeHTTP(w, r.WithContext(ctx))
	})
}

// wait delays a request by the rule of Slow; false: the request was answered with 429 instead.
func (p *APIProxy) wait(w http.ResponseWriter, r *http.Request) bool {
	p.mutex.Lock()
	slow := p.slow
	p.mutex.Unlock()
	if slow == nil {
		return true
	}
	delay := slow(r)
	if delay.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(delay.RetryAfter))
		w.WriteHeader(http.StatusTooManyRequests)
		return false
	}
	select {
	case <-time.After(delay.Wait):
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
	return true
}

type loseKey struct{}

type admitted struct {
	fate Fate
	id   int
}

func (p *APIProxy) admit(r *http.Request, cancel context.CancelFunc) admitted {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	a := admitted{Pass, -1}
	if p.decide != nil {
		a.fate = p.decide(r)
	}
	if isWatch(r) {
		a.id = p.next
		p.next++
		p.cuts[a.id] = cancel
	}
	return a
}

func (p *APIProxy) forget(id int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.cuts, id)
}

func (p *APIProxy) countGone(r *http.Response) {
	if r.StatusCode == http.StatusGone {
		p.sawGone()
	}
}

func (p *APIProxy) sawGone() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.gone++
}

// Gone returns how often the API server answered 410, as a status or in an event of a watch.
func (p *APIProxy) Gone() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.gone
}

// Decide sets the rule that decides each request's fate; nil passes all.
func (p *APIProxy) Decide(rule func(*http.Request) Fate) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.decide = rule
}

// Slow sets the rule that delays requests; nil delays none.
func (p *APIProxy) Slow(rule func(*http.Request) Delay) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.slow = rule
}

// CutWatches breaks every open watch and returns how many there were.
func (p *APIProxy) CutWatches() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, cancel := range p.cuts {
		cancel()
	}
	return len(p.cuts)
}

// HoldWatches holds back the events of all watches without closing them; the returned function releases them.
func (p *APIProxy) HoldWatches() (release func()) {
	held := make(chan struct{})
	p.mutex.Lock()
	p.held = held
	p.mutex.Unlock()
	return sync.OnceFunc(func() { close(held) })
}

func (p *APIProxy) flow() <-chan struct{} {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.held
}

// Stop ends the proxy and every connection through it.
func (p *APIProxy) Stop() { p.server.Close() }

// gate is the body of a watch; reads from it wait while watches are held.
type gate struct {
	io.ReadCloser
	proxy *APIProxy
	stop  <-chan struct{}
}

func (g *gate) Read(buffer []byte) (int, error) {
	n, err := g.ReadCloser.Read(buffer)
	select {
	case <-g.proxy.flow():
	case <-g.stop:
		return 0, io.ErrUnexpectedEOF
	}
	if isGoneEvent(string(buffer[:n])) {
		g.proxy.sawGone()
	}
	return n, err
}

// In protobuf, field 1 of an event is its type, and field 6 of a Status its code.
func isGoneEvent(part string) bool {
	return strings.Contains(part, `"type":"ERROR"`) && strings.Contains(part, `"code":410`) ||
		strings.Contains(part, "\x0a\x05ERROR") && strings.Contains(part, "\x30\x9a\x03")
}

// IsBinding says whether a request binds this pod ("" = any).
func IsBinding(r *http.Request, pod string) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods/"+pod+"/binding") ||
		pod == "" && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding")
}
