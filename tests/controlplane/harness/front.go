package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"sync"
	"time"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// Call is one webhook call that went through a Front.
type Call struct {
	At     time.Time
	Verb   string
	Pod    string
	Answer string
	Body   string
	Code   int
}

func (c Call) String() string {
	return fmt.Sprintf("%s %s %s: %d %.300s", c.At.Format("15:04:05.000"), c.Verb, c.Pod, c.Code, c.Answer)
}

// Front stands between kube-schedulers and milligpud: it records the calls and keeps one address while
// milligpud stops and starts.
type Front struct {
	URL string

	server *http.Server
	mutex  sync.Mutex
	target *url.URL
	calls  []Call
}

// StartFront starts a Front that answers 503 until Lead sets a target.
func StartFront() (*Front, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Front{URL: "http://" + listener.Addr().String() + "/scheduler"}
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if target := f.Target(); target != nil {
				r.SetURL(target)
			}
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 256},
		ErrorLog:  quiet(),
	}
	f.server = &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { f.serve(reverse, w, r) })}
	go f.server.Serve(listener)
	return f, nil
}

// Target returns where calls go now, or nil.
func (f *Front) Target() *url.URL {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.target
}

// Lead sends calls to HOST:PORT from now on; with "", they are answered 503.
func (f *Front) Lead(address string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.target = nil
	if address != "" {
		f.target = &url.URL{Scheme: "http", Host: address}
	}
}

func podOf(body []byte) string {
	var ask Object
	if json.Unmarshal(body, &ask) != nil {
		return ""
	}
	if name := Text(ask, "PodName"); name != "" {
		return Text(ask, "PodNamespace") + "/" + name
	}
	return Text(ask, "Pod", "metadata", "namespace") + "/" + Text(ask, "Pod", "metadata", "name")
}

type tee struct {
	http.ResponseWriter
	code int
	copy bytes.Buffer
}

func (t *tee) WriteHeader(code int) {
	t.code = code
	t.ResponseWriter.WriteHeader(code)
}

func (t *tee) Write(data []byte) (int, error) {
	t.copy.Write(data)
	return t.ResponseWriter.Write(data)
}

func (f *Front) serve(reverse http.Handler, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call := Call{At: time.Now(), Verb: path.Base(r.URL.Path), Pod: podOf(body), Body: string(body)}
	answer := &tee{ResponseWriter: w, code: http.StatusOK}
	if f.Target() == nil {
		answer.WriteHeader(http.StatusServiceUnavailable)
	} else {
		reverse.ServeHTTP(answer, r)
	}
	call.Code, call.Answer = answer.code, answer.copy.String()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.calls = append(f.calls, call)
}

// Calls returns the calls of one verb about one pod "namespace/name" ("" = any for both), oldest first.
func (f *Front) Calls(verb, pod string) []Call {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var some []Call
	for _, c := range f.calls {
		if (verb == "" || c.Verb == verb) && (pod == "" || c.Pod == pod) {
			some = append(some, c)
		}
	}
	return some
}

// Forget drops the recorded calls.
func (f *Front) Forget() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.calls = nil
}

// Stop ends it.
func (f *Front) Stop() { f.server.Close() }
