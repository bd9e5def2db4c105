package harness

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const adminToken = "admin-of-a-test-cluster"

// Cluster is etcd and kube-apiserver in a folder of their own; StartManagedCluster adds kube-controller-manager.
type Cluster struct {
	Dir        string
	URL        string
	CAFile     string
	Kubeconfig string
	AuditLog   string
	Admin      *API
	EtcdURL    string

	etcd, api *Proc
	starting  []span
	apiArgs   []string
	procs     []*Proc
	services  string /* the first three bytes of the addresses of Services, with their dots */
}

// span is a time in which kube-apiserver was starting.
type span struct{ from, to time.Time }

/* Logs all requests of service accounts, and everybody's patches, updates and deletions of pods and nodes, with
 * their status: enough to prove what milligpud did and what it never did. */
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: Metadata
  verbs: [patch, update, delete]
  resources: [{group: "", resources: [pods, "pods/*", nodes]}]
- level: None
`

// StartCluster starts etcd and kube-apiserver and returns when the API server is ready. Pods need no account there.
func StartCluster(dir string) (*Cluster, error) {
	return startCluster(dir, theUsualServices, "ServiceAccount,TaintNodesByCondition")
}

// StartClusterOfBarePods is StartCluster, and pods get no toleration that they do not bring.
func StartClusterOfBarePods(dir string) (*Cluster, error) {
	return startCluster(dir, theUsualServices, "ServiceAccount,TaintNodesByCondition,DefaultTolerationSeconds")
}

// StartManagedCluster is StartCluster with kube-controller-manager: it has DaemonSets, StatefulSets, Jobs and volumes, its
// namespaces have accounts, and each pod has the token of one.
func StartManagedCluster(dir string) (*Cluster, error) {
	/* no other network of this machine: Doorway gives the machine an address of it */
	services := fmt.Sprintf("10.%d.%d.", 150+os.Getpid()%50, os.Getpid()/50%250)
	c, err := startCluster(dir, services, "TaintNodesByCondition")
	if err != nil {
		return nil, err
	}
	_, err = c.Start("kube-controller-manager", Component("kube-controller-manager"), "--kubeconfig="+c.Kubeconfig,
		"--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0", "--root-ca-file="+c.CAFile,
		"--service-account-private-key-file="+filepath.Join(c.Dir, "sa.key"),
		"--controllers=daemonset-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,"+
			"garbage-collector-controller,namespace-controller,statefulset-controller,job-controller,"+
			"persistentvolume-binder-controller,persistentvolumeclaim-protection-controller")
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

/* the manifests have an address of it for the Service of (b) and (c) */
const theUsualServices = "10.96.0."

/* without these admission plugins, comma-separated */
func startCluster(dir, services, without string) (*Cluster, error) {
	ports, err := FreePorts(3)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, EtcdURL: fmt.Sprintf("http://127.0.0.1:%d", ports[0]),
		URL: fmt.Sprintf("https://127.0.0.1:%d", ports[2]), AuditLog: filepath.Join(dir, "audit.log"),
		services: services}
	if err := c.writeFiles(); err != nil {
		return nil, err
	}
	if err := c.startEtcd(ports[0], ports[1]); err != nil {
		return nil, err
	}
	c.apiArgs = c.apiServerArgs(ports[2], without)
	if err := c.StartAPIServer(); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) writeFiles() error {
	tokens := adminToken + `,admin,admin,"system:masters"` + "\n"
	for name, text := range map[string]string{"tokens.csv": tokens, "audit.yaml": auditPolicy} {
		if err := os.WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	_, err := Run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out",
		filepath.Join(c.Dir, "sa.key"))
	return err
}

// EtcdSyncs makes the etcd of a cluster that is started from now on sync each commit, as it does where its data matters.
var EtcdSyncs bool

func (c *Cluster) startEtcd(client, peer int) (err error) {
	clientURL, peerURL := c.EtcdURL, fmt.Sprintf("http://127.0.0.1:%d", peer)
	c.etcd, err = StartProc("etcd", c.Dir, Component("etcd"),
		"--data-dir="+filepath.Join(c.Dir, "etcd"), fmt.Sprintf("--unsafe-no-fsync=%t", !EtcdSyncs), "--log-level=warn",
		"--listen-client-urls="+clientURL, "--advertise-client-urls="+clientURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL,
		"--initial-cluster=default="+peerURL)
	return err
}

func (c *Cluster) apiServerArgs(port int, without string) []string {
	file := func(name string) string { return filepath.Join(c.Dir, name) }
	return []string{
		"--etcd-servers=" + c.EtcdURL, "--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--cert-dir=" + file("pki"), "--token-auth-file=" + file("tokens.csv"),
		"--authorization-mode=RBAC", "--anonymous-auth=false",
		"--service-account-issuer=https://vgpu.test",
		"--service-account-key-file=" + file("sa.key"),
		"--service-account-signing-key-file=" + file("sa.key"),
		"--service-cluster-ip-range=" + c.services + "0/24", "--endpoint-reconciler-type=none",
		"--kubelet-preferred-address-types=InternalIP", /* for kubectl exec: nothing resolves the node's name */
		"--allow-privileged=true",
		"--disable-admission-plugins=" + without,
		"--max-requests-inflight=0", "--max-mutating-requests-inflight=0",
		"--enable-priority-and-fairness=false",
		"--audit-policy-file=" + file("audit.yaml"), "--audit-log-path=" + c.AuditLog,
	}
}

// StartAPIServer starts kube-apiserver, also after StopAPIServer, and waits until it is ready.
func (c *Cluster) StartAPIServer() (err error) {
	began := time.Now()
	defer func() { c.starting = append(c.starting, span{began, time.Now()}) }()
	c.api, err = StartProc("kube-apiserver", c.Dir, Component("kube-apiserver"), c.apiArgs...)
	if err != nil {
		return err
	}
	err = Until(Patience, func() (bool, string) {
		if !c.api.Running() {
			return true, ""
		}
		if c.Admin == nil && c.adminFiles() != nil {
			return false, "kube-apiserver has not written its certificate"
		}
		if _, err := c.Admin.Raw("/readyz"); err != nil {
			return false, "kube-apiserver: " + err.Error()
		}
		_, err := c.Admin.Get("/api/v1/namespaces/kube-system")
		return err == nil, "there is no namespace kube-system"
	})
	if err == nil && !c.api.Running() {
		err = fmt.Errorf("kube-apiserver ended: %v", c.api.err)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s\n%s", err, c.etcd.Tail(10), c.api.Tail(20))
	}
	return err
}

func (c *Cluster) adminFiles() error {
	c.CAFile = filepath.Join(c.Dir, "pki", "apiserver.crt")
	ca, err := os.ReadFile(c.CAFile)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return fmt.Errorf("%s is not complete", c.CAFile)
	}
	c.Kubeconfig = filepath.Join(c.Dir, "admin.kubeconfig")
	if err := WriteKubeconfig(c.Kubeconfig, c.URL, c.CAFile, adminToken); err != nil {
		return err
	}
	c.Admin = NewAPI(c.URL, adminToken, &tls.Config{RootCAs: pool})
	return nil
}

// WriteKubeconfig writes a kubeconfig with a bearer token.
func WriteKubeconfig(path, server, caFile, token string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: "%s", certificate-authority: "%s"}}]
users: [{name: test, user: {token: "%s"}}]
`, server, caFile, token)
	return os.WriteFile(path, []byte(text), 0o600)
}

// Starting says whether kube-apiserver was starting at that time: it serves before it has read the roles,
// and until then denies everything.
func (c *Cluster) Starting(at time.Time) bool {
	for _, s := range c.starting {
		if at.After(s.from) && at.Before(s.to) {
			return true
		}
	}
	return false
}

// StopAPIServer stops kube-apiserver; etcd keeps running. After a second, kube-apiserver is killed: its
// orderly shutdown waits until clients end their watches, which they do not.
func (c *Cluster) StopAPIServer() { c.api.stopWithin(time.Second) }

// Compact makes etcd forget everything before now, so that old resourceVersions are really gone.
func (c *Cluster) Compact() error {
	status, err := c.etcdCall("/v3/maintenance/status", "{}")
	if err != nil {
		return err
	}
	revision := Text(status, "header", "revision")
	_, err = c.etcdCall("/v3/kv/compaction", `{"revision":"`+revision+`","physical":true}`)
	return err
}

func (c *Cluster) etcdCall(path, body string) (Object, error) {
	etcd := &API{URL: c.EtcdURL, client: http.DefaultClient}
	return etcd.Do("POST", path, "application/json", body)
}

// Start runs another program, which is stopped with the cluster.
func (c *Cluster) Start(name, program string, args ...string) (*Proc, error) {
	p, err := StartProc(name, c.Dir, program, args...)
	if err == nil {
		c.procs = append(c.procs, p)
	}
	return p, err
}

// Kubectl runs kubectl as the admin, with a text on its standard input.
func (c *Cluster) Kubectl(stdin string, args ...string) (string, error) {
	cache := "--cache-dir=" + filepath.Join(c.Dir, "kubectl-cache")
	return RunIn(stdin, Component("kubectl"),
		append([]string{"--kubeconfig=" + c.Kubeconfig, cache}, args...)...)
}

// Tails returns the last lines of all logs.
func (c *Cluster) Tails(lines int) string {
	var all strings.Builder
	logs, _ := filepath.Glob(filepath.Join(c.Dir, "*.log"))
	for _, log := range logs {
		if log != c.AuditLog {
			fmt.Fprintf(&all, "---- %s\n%s\n", filepath.Base(log), TailFile(log, lines))
		}
	}
	return all.String()
}

// Pids returns the pids of all running processes by name (for cmd/up).
func (c *Cluster) Pids() map[string]int {
	pids := map[string]int{"etcd": c.etcd.Pid(), "kube-apiserver": c.api.Pid()}
	for _, p := range c.procs {
		if p.Running() {
			pids[p.Name] = p.Pid()
		}
	}
	return pids
}

// Stop ends every process of the cluster; its folder is left to the caller.
func (c *Cluster) Stop() {
	for i := len(c.procs) - 1; i >= 0; i-- {
		c.procs[i].Stop()
	}
	c.StopAPIServer()
	/* etcd's data is no longer needed, so do not wait for an orderly shutdown */
	c.etcd.Kill()
}

// WithCluster runs do on a cluster in a folder of its own and removes both afterwards. On SIGINT or
// SIGTERM, it stops the cluster and leaves the folder to the caller.
func WithCluster(do func(*Cluster) error) error {
	dir, err := TempDir()
	if err != nil {
		return err
	}
	defer RemoveAll(dir)
	cluster, err := StartCluster(dir)
	if err != nil {
		return err
	}
	defer cluster.Stop()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cluster.Stop()
		os.Exit(1)
	}()
	return do(cluster)
}
