package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"
)

// Audited is one request from the API server's audit log.
type Audited struct {
	At time.Time

	User, Verb, URI, Resource, Subresource, Namespace, Name string
	Code                                                    int
}

// Audit reads the audit log, oldest first.
func (c *Cluster) Audit() ([]Audited, error) {
	file, err := os.Open(c.AuditLog)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadAudit(file)
}

// ReadAudit returns the requests of an audit log that is still written to: a last line without its end is not complete yet,
// and is left out.
func ReadAudit(log io.Reader) ([]Audited, error) {
	var all []Audited
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		one, err := readAudited(line)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}

func readAudited(line []byte) (Audited, error) {
	var e Object
	if err := json.Unmarshal(line, &e); err != nil {
		return Audited{}, err
	}
	at, err := time.Parse(time.RFC3339, Text(e, "requestReceivedTimestamp"))
	return Audited{
		At: at, User: Text(e, "user", "username"), Verb: Text(e, "verb"), URI: Text(e, "requestURI"),
		Resource: Text(e, "objectRef", "resource"), Name: Text(e, "objectRef", "name"),
		Subresource: Text(e, "objectRef", "subresource"),
		Namespace:   Text(e, "objectRef", "namespace"),
		Code:        Number(e, "responseStatus", "code"),
	}, err
}
