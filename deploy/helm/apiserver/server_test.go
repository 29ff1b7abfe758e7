// Package apiserver holds the Helm chart to a real Kubernetes API server: every
// manifest of every file in deploy/helm/values is applied as a dry run, and a
// release is installed, upgraded, rolled back and uninstalled. The server and
// its etcd are built from their own sources, so neither a cluster nor a
// registry is needed, and nothing else runs: what is stored is not acted upon.
// It is a module of its own, because nothing else here needs Kubernetes.
package apiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// become tells the test's own binary, started once more, which server to be.
const become = "LOGBOOM_TEST_BECOME"

// startTimeout is how long a server may take to answer on a busy machine.
const startTimeout = 3 * time.Minute

// token is what the tests sign in with at a server that only they reach.
const token = "administrator"

func TestMain(m *testing.M) {
	switch os.Getenv(become) {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(app.NewAPIServerCommand()))
	default:
		os.Exit(m.Run())
	}
}

// startServer runs etcd and kube-apiserver on loopback until the test ends, and
// gives what a client needs.
func startServer(t *testing.T) *rest.Config {
	t.Helper()
	folder := t.TempDir()
	ports := freePorts(t, 3)
	store, peers, port := ports[0], ports[1], ports[2]
	storeURL, peersURL := "http://127.0.0.1:"+store, "http://127.0.0.1:"+peers
	startProcess(t, folder, "etcd", "--name=default", "--data-dir="+filepath.Join(folder, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+storeURL, "--advertise-client-urls="+storeURL,
		"--listen-peer-urls="+peersURL, "--initial-advertise-peer-urls="+peersURL, "--initial-cluster=default="+peersURL)
	tokens := write(t, filepath.Join(folder, "tokens.csv"), []byte(token+",administrator,administrator,system:masters\n"))
	key := serviceAccountKey(t, filepath.Join(folder, "service-account.key"))
	exited := startProcess(t, folder, "kube-apiserver", "--etcd-servers="+storeURL, "--cert-dir="+folder,
		"--bind-address=127.0.0.1", "--secure-port="+port, "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=RBAC", "--token-auth-file="+tokens, "--profiling=false",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key, "--service-account-signing-key-file="+key)
	config := &rest.Config{
		Host: "https://127.0.0.1:" + port, BearerToken: token, QPS: 1000, Burst: 1000,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(folder, "apiserver.crt")},
	}
	awaitReady(t, config, exited)
	return config
}

// startProcess runs this binary as a server of that name and kills it at the
// end of the test. What it printed is shown where the test failed; the channel
// is closed when it has ended.
func startProcess(t *testing.T, folder, name string, args ...string) <-chan struct{} {
	t.Helper()
	output := filepath.Join(folder, name+".log")
	file, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(os.Args[0], args...)
	process.Env = append(os.Environ(), become+"="+name)
	process.Stdout, process.Stderr = file, file
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, exited := make(chan error, 1), make(chan struct{}) // one: it is told once
	go func() {
		defer close(exited)
		runtime.LockOSThread() // a parent's death is that of the thread that started its child
		err := process.Start()
		started <- err
		if err == nil {
			_ = process.Wait() // it is killed, so it always has something to say
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill() // or it has ended by itself
		<-exited
		_ = file.Close()
		if t.Failed() {
			text, _ := os.ReadFile(output) // a courtesy
			t.Logf("%s, its last lines:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return exited
}

// awaitReady waits until the server answers that it is ready, and fails the
// test at once where it has ended.
func awaitReady(t *testing.T, config *rest.Config, exited <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for {
		err := ready(ctx, config)
		if err == nil {
			return
		}
		select {
		case <-exited:
			t.Fatal("the API server ended at its start")
		case <-ctx.Done():
			t.Fatalf("the API server is not ready after %s: %v", startTimeout, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func ready(ctx context.Context, config *rest.Config) error {
	client, err := rest.UnversionedRESTClientFor(plain(config)) // fails until there is a certificate to trust
	if err != nil {
		return err
	}
	return client.Get().AbsPath("/readyz").Do(ctx).Error()
}

// freePorts are ports on loopback that nobody had a moment ago, each another:
// neither server takes 0. They lie below those that the kernel gives to
// connections.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(10_000 + mathrand.IntN(20_000))
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			defer listener.Close() // nobody has connected
			if ports = append(ports, port); len(ports) == n {
				return ports
			}
		}
	}
	t.Fatalf("fewer than %d free ports between 10000 and 30000 on loopback", n)
	return nil
}

// serviceAccountKey writes a key to sign service accounts' tokens with.
func serviceAccountKey(t *testing.T, path string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, path, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// kubeconfig writes what helm finds the server by.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: config.Host, CertificateAuthority: config.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(t.TempDir(), "kubeconfig"), text)
}

// run runs a command and gives what it printed; what it complained of is in the
// error.
func run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), env...)
	var out, complaints bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaints
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s %v: %w: %s", filepath.Base(name), args, err, complaints.Bytes())
	}
	return out.Bytes(), nil
}

func write(t *testing.T, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
