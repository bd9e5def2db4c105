package harness

import "fmt"

// Resource is the name of the resource that pods request.
const Resource = "nvidia.com/vgpu"

// NodeShape describes a node without a kubelet: one POST with a status creates it.
type NodeShape struct {
	Name        string
	Milli       int
	Product     string
	MiB         int
	Labels      map[string]string
	Annotations map[string]string
	WholeGPUs   int
}

// DemoNodes returns the three nodes of the demo: 8 x A100, 4 x T4, and a VM that owns half an A100.
func DemoNodes() []NodeShape {
	return []NodeShape{
		{Name: "a100-0", Milli: 8000, Product: "A100-SXM4-80GB", MiB: 81920},
		{Name: "t4-0", Milli: 4000, Product: "Tesla-T4", MiB: 15360},
		{Name: "vm-0", Milli: 500, Product: "A100-80GB", MiB: 40960},
	}
}

// Object returns the node as it is posted.
func (s NodeShape) Object() Object {
	labels := Object{}
	if s.Product != "" {
		labels = GFDLabels((s.Milli+999)/1000, s.Product, s.MiB)
	}
	labels["kubernetes.io/hostname"] = s.Name
	for key, value := range s.Labels {
		labels[key] = value
	}
	annotations := Object{}
	for key, value := range s.Annotations {
		annotations[key] = value
	}
	return Object{"apiVersion": "v1", "kind": "Node",
		"metadata": Object{"name": s.Name, "labels": labels, "annotations": annotations},
		"status":   s.status()}
}

func (s NodeShape) status() Object {
	room := Object{"cpu": "256", "memory": "1024Gi", "pods": "1000"}
	if s.Milli > 0 {
		room[Resource] = fmt.Sprint(s.Milli)
	}
	if s.WholeGPUs > 0 {
		room["nvidia.com/gpu"] = fmt.Sprint(s.WholeGPUs)
	}
	return Object{"capacity": room, "allocatable": room}
}

// Ask is one container that requests thousandths of a GPU (0: requests none).
type Ask struct {
	Name  string
	Milli int
}

// PodShape describes a pod.
type PodShape struct {
	Name        string
	Apps        []Ask
	Inits       []Ask
	Sidecars    []Ask
	Annotations map[string]string
	Scheduler   string
	Class       string
	Grace       *int
	Extra       map[string]string /* additional limits of the first container */
}

// Simple returns a pod with one container.
func Simple(name string, milli int) PodShape {
	return PodShape{Name: name, Apps: []Ask{{"main", milli}}}
}

// With adds annotations, given as key, value, key, value.
func (p PodShape) With(pairs ...string) PodShape {
	merged := map[string]string{}
	for key, value := range p.Annotations {
		merged[key] = value
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		merged[pairs[i]] = pairs[i+1]
	}
	p.Annotations = merged
	return p
}

func container(ask Ask, extra map[string]string) Object {
	limits := Object{}
	if ask.Milli > 0 {
		limits[Resource] = fmt.Sprint(ask.Milli)
	}
	for key, value := range extra {
		limits[key] = value
	}
	return Object{"name": ask.Name, "image": "pause", "resources": Object{"limits": limits}}
}

// Object returns the pod as it is posted.
func (p PodShape) Object() Object {
	var apps, inits []any
	for i, ask := range p.Apps {
		extra := p.Extra
		if i > 0 {
			extra = nil
		}
		apps = append(apps, container(ask, extra))
	}
	for _, ask := range p.Sidecars {
		sidecar := container(ask, nil)
		sidecar["restartPolicy"] = "Always"
		inits = append(inits, sidecar)
	}
	for _, ask := range p.Inits {
		inits = append(inits, container(ask, nil))
	}
	spec := Object{"containers": apps, "automountServiceAccountToken": false}
	if inits != nil {
		spec["initContainers"] = inits
	}
	if p.Scheduler != "" {
		spec["schedulerName"] = p.Scheduler
	}
	if p.Class != "" {
		spec["priorityClassName"] = p.Class
	}
	if p.Grace != nil {
		spec["terminationGracePeriodSeconds"] = *p.Grace
	}
	annotations := Object{}
	for key, value := range p.Annotations {
		annotations[key] = value
	}
	return Object{"apiVersion": "v1", "kind": "Pod",
		"metadata": Object{"name": p.Name, "annotations": annotations}, "spec": spec}
}
