package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Object is any JSON object; At walks into it.
type Object = map[string]any

// At returns the value at a path of keys and list positions, or nil.
func At(value any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			object, ok := value.(Object)
			if !ok {
				return nil
			}
			value = object[s]
		case int:
			list, ok := value.([]any)
			if !ok || s >= len(list) {
				return nil
			}
			value = list[s]
		}
	}
	return value
}

// Text is At for strings; "" if there is none.
func Text(value any, path ...any) string {
	s, _ := At(value, path...).(string)
	return s
}

// Number is At for numbers; 0 if there is none.
func Number(value any, path ...any) int {
	f, _ := At(value, path...).(float64)
	return int(f)
}

// Items is At for lists of objects.
func Items(value any, path ...any) []Object {
	list, _ := At(value, path...).([]any)
	var out []Object
	for _, item := range list {
		if object, ok := item.(Object); ok {
			out = append(out, object)
		}
	}
	return out
}

// API is a small client of one API server as one user.
type API struct {
	URL    string
	token  string
	client *http.Client
}

// NewAPI returns a client that authenticates with a bearer token.
func NewAPI(url, token string, config *tls.Config) *API {
	return &API{URL: url, token: token, client: &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 64},
	}}
}

// As returns the same client with the token of another user.
func (a *API) As(token string) *API {
	return &API{URL: a.URL, token: token, client: a.client}
}

// StatusError is an answer with a status of 400 or above.
type StatusError struct {
	Code    int
	Message string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

func (a *API) send(method, path, contentType string, body any) ([]byte, error) {
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequest(method, a.URL+path, reader)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 400 {
		var status Object
		message := string(data)
		if json.Unmarshal(data, &status) == nil && Text(status, "message") != "" {
			message = Text(status, "message")
		}
		return nil, &StatusError{response.StatusCode, message}
	}
	return data, nil
}

// Do sends a request and decodes the answer.
func (a *API) Do(method, path, contentType string, body any) (Object, error) {
	data, err := a.send(method, path, contentType, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	var out Object
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return out, nil
}

// Code returns the status of the StatusError that an error is or wraps, or 0.
func Code(err error) int {
	for err != nil {
		if status, ok := err.(*StatusError); ok {
			return status.Code
		}
		unwrap, ok := err.(interface{ Unwrap() error })
		if !ok {
			return 0
		}
		err = unwrap.Unwrap()
	}
	return 0
}

// Raw fetches a path as bytes.
func (a *API) Raw(path string) ([]byte, error) { return a.send("GET", path, "", nil) }

// Get fetches an object or a list.
func (a *API) Get(path string) (Object, error) { return a.Do("GET", path, "", nil) }

// Create posts an object to its collection.
func (a *API) Create(path string, object any) (Object, error) {
	return a.Do("POST", path, "application/json", object)
}

// Merge applies a merge patch to an object.
func (a *API) Merge(path string, patch any) (Object, error) {
	return a.Do("PATCH", path, "application/merge-patch+json", patch)
}

// Delete removes an object; with grace < 0, the object's own grace period applies. A missing object is
// no error.
func (a *API) Delete(path string, grace int) error {
	if grace >= 0 {
		path += fmt.Sprintf("?gracePeriodSeconds=%d", grace)
	}
	_, err := a.Do("DELETE", path, "", nil)
	if Code(err) == http.StatusNotFound {
		return nil
	}
	return err
}

// PodPath is the path of a pod, or of the pods of a namespace when the name is "".
func PodPath(namespace, name string) string {
	path := "/api/v1/namespaces/" + namespace + "/pods"
	if name != "" {
		path += "/" + name
	}
	return path
}

// NodePath is the path of a node, or of all nodes.
func NodePath(name string) string {
	if name == "" {
		return "/api/v1/nodes"
	}
	return "/api/v1/nodes/" + name
}

// Events returns the Events about one object, as lines "reason: message".
func (a *API) Events(namespace, name string) ([]string, error) {
	selector := url.QueryEscape("involvedObject.name=" + name)
	list, err := a.Get("/api/v1/namespaces/" + namespace + "/events?fieldSelector=" + selector)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, event := range Items(list, "items") {
		lines = append(lines, Text(event, "reason")+": "+Text(event, "message"))
	}
	return lines, nil
}

// Condition returns status, reason and message of a pod's PodScheduled condition.
func Condition(pod Object) (status, reason, message string) {
	for _, c := range Items(pod, "status", "conditions") {
		if Text(c, "type") == "PodScheduled" {
			return Text(c, "status"), Text(c, "reason"), Text(c, "message")
		}
	}
	return "", "", ""
}

// Change is one event of a watch.
type Change struct {
	Kind   string
	Object Object
}

// Watch reads the changes of a collection from a resourceVersion on, until stop is called.
func (a *API) Watch(path, version string) (changes <-chan Change, stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, "GET",
		a.URL+path+"?watch=1&resourceVersion="+version, nil)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	client := &http.Client{Transport: a.client.Transport}
	response, err := client.Do(request)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	out := make(chan Change, 65536)
	go func() {
		defer close(out)
		defer response.Body.Close()
		decoder := json.NewDecoder(response.Body)
		for {
			var event Object
			if decoder.Decode(&event) != nil {
				return
			}
			object, _ := At(event, "object").(Object)
			out <- Change{Text(event, "type"), object}
		}
	}()
	return out, cancel, nil
}
