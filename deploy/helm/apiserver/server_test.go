// Package apiserver tests the Helm chart against a real Kubernetes API server.
// It applies every manifest of every file in deploy/helm/values as a dry run,
// and it installs, upgrades, rolls back and uninstalls a release. The server and
// its etcd are built from source, so the tests need no cluster and no registry.
// Nothing else runs: no controller acts on the stored objects. The package is a
// separate module because nothing else in the repository needs Kubernetes.
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

// serverVariable is the environment variable that makes the test's binary run as
// the named server, "etcd" or "kube-apiserver".
const serverVariable = "LOGBOOM_TEST_BECOME"

// startTimeout limits how long a server may take to start on a busy machine.
const startTimeout = 3 * time.Minute

// token is the bearer token of the tests. Only they can reach the server.
const token = "administrator"

func TestMain(m *testing.M) {
	switch os.Getenv(serverVariable) {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(app.NewAPIServerCommand()))
	default:
		os.Exit(m.Run())
	}
}

// startServer runs etcd and kube-apiserver on loopback until the test ends, and
// returns the client's configuration.
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

// startProcess runs this binary as the named server and kills it at the end of
// the test. If the test fails, it logs the server's last output. The channel is
// closed when the server has exited.
func startProcess(t *testing.T, folder, name string, args ...string) <-chan struct{} {
	t.Helper()
	output := filepath.Join(folder, name+".log")
	file, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(os.Args[0], args...)
	process.Env = append(os.Environ(), serverVariable+"="+name)
	process.Stdout, process.Stderr = file, file
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, exited := make(chan error, 1), make(chan struct{}) // started receives one value
	go func() {
		defer close(exited)
		runtime.LockOSThread() // Pdeathsig is sent when the thread that started the child exits
		err := process.Start()
		started <- err
		if err == nil {
			_ = process.Wait() // always an error: the process is killed
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill() // it may have exited already
		<-exited
		_ = file.Close()
		if t.Failed() {
			text, _ := os.ReadFile(output) // only to help explain the failure
			t.Logf("last lines of %s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return exited
}

// awaitReady waits until the server reports that it is ready, and fails the test
// as soon as the server exits.
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
			t.Fatal("the API server exited while it started")
		case <-ctx.Done():
			t.Fatalf("the API server is not ready after %s: %v", startTimeout, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func ready(ctx context.Context, config *rest.Config) error {
	client, err := rest.UnversionedRESTClientFor(plain(config)) // fails until the server has written its certificate
	if err != nil {
		return err
	}
	return client.Get().AbsPath("/readyz").Do(ctx).Error()
}

// freePorts returns n different ports on loopback that were free a moment ago.
// Neither server accepts port 0. The ports are below the range from which the
// kernel assigns ports to connections.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(10_000 + mathrand.IntN(20_000))
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			defer listener.Close() // keeps the port, so that it is not chosen twice
			if ports = append(ports, port); len(ports) == n {
				return ports
			}
		}
	}
	t.Fatalf("fewer than %d free ports between 10000 and 30000 on loopback", n)
	return nil
}

// serviceAccountKey writes a new key that signs the tokens of service accounts.
func serviceAccountKey(t *testing.T, path string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, path, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// kubeconfig writes the configuration with which helm reaches the server.
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

// run runs a command and returns its standard output. Its standard error is part
// of the error.
func run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), env...)
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s %v: %w: %s", filepath.Base(name), args, err, stderr.Bytes())
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
