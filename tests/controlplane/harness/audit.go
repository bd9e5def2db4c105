package harness

import (
	"bufio"
	"encoding/json"
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
	var all []Audited
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var e Object
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		at, err := time.Parse(time.RFC3339, Text(e, "requestReceivedTimestamp"))
		if err != nil {
			return nil, err
		}
		all = append(all, Audited{
			At: at, User: Text(e, "user", "username"), Verb: Text(e, "verb"), URI: Text(e, "requestURI"),
			Resource: Text(e, "objectRef", "resource"), Name: Text(e, "objectRef", "name"),
			Subresource: Text(e, "objectRef", "subresource"),
			Namespace:   Text(e, "objectRef", "namespace"),
			Code:        Number(e, "responseStatus", "code"),
		})
	}
	return all, lines.Err()
}
