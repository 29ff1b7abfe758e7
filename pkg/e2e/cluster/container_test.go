package cluster

import (
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// patience bounds each wait on a busy machine. It does not say how long anything
// usually takes.
const patience = 90 * time.Second

// box is a container on which faults can be inflicted.
type box struct {
	t      testing.TB
	name   string
	docker *client.Client
	inner  testcontainers.Container
	links  map[string][]string // its networks, with its names in them
}

// launch starts a container with a name in the networks. If the test fails, its
// output is printed.
func (c *cluster) launch(name, image string, links map[string][]string, options ...testcontainers.ContainerCustomizer) *box {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	options = append(options, testcontainers.CustomizeRequest(testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{Networks: names(links), NetworkAliases: links},
	}))
	inner, err := testcontainers.Run(ctx, image, options...)
	b := &box{t: c.t, name: name, docker: c.docker, inner: inner, links: links}
	if inner != nil {
		c.t.Cleanup(b.discard)
	}
	if err != nil {
		c.t.Fatalf("start %s: %v", name, err)
	}
	return b
}

func names(links map[string][]string) []string {
	var all []string
	for name := range links {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// discard removes the container. After a failure it prints its last lines.
func (b *box) discard() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if b.t.Failed() {
		b.t.Logf("the last lines of %s:\n%s", b.name, b.tail(ctx))
	}
	_ = b.inner.Terminate(ctx, testcontainers.StopTimeout(0)) // a replaced container is gone already
}

func (b *box) tail(ctx context.Context) []byte {
	logs, err := b.inner.Logs(ctx)
	if err != nil {
		return []byte(err.Error())
	}
	defer logs.Close()
	text, _ := io.ReadAll(logs) // as much as exists
	return text[max(0, len(text)-4000):]
}

// do fails the test if Docker refuses.
func (b *box) do(what string, act func(ctx context.Context, id string) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := act(ctx, b.inner.GetContainerID()); err != nil {
		b.t.Fatalf("%s %s: %v", what, b.name, err)
	}
}

// kill kills the container and waits until Docker has noticed its end, because
// starting a container that counts as running has no effect.
func (b *box) kill() {
	b.t.Helper()
	b.do("kill", func(ctx context.Context, id string) error {
		if _, err := b.docker.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
			return err
		}
		ended := b.docker.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		select {
		case <-ended.Result:
			return nil
		case err := <-ended.Error:
			return err
		}
	})
}

// start starts the container again with its data.
func (b *box) start() {
	b.t.Helper()
	b.do("start", func(ctx context.Context, id string) error {
		_, err := b.docker.ContainerStart(ctx, id, client.ContainerStartOptions{})
		return err
	})
}

func (b *box) pause() {
	b.t.Helper()
	b.do("pause", func(ctx context.Context, id string) error {
		_, err := b.docker.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		return err
	})
}

func (b *box) resume() {
	b.t.Helper()
	b.do("resume", func(ctx context.Context, id string) error {
		_, err := b.docker.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		return err
	})
}

// cut disconnects the container from a network without closing connections.
func (b *box) cut(name string) {
	b.t.Helper()
	b.do("cut off", func(ctx context.Context, id string) error {
		_, err := b.docker.NetworkDisconnect(ctx, name, client.NetworkDisconnectOptions{Container: id, Force: true})
		return err
	})
}

// join connects the container again.
func (b *box) join(name string) {
	b.t.Helper()
	b.do("join", func(ctx context.Context, id string) error {
		_, err := b.docker.NetworkConnect(ctx, name, client.NetworkConnectOptions{
			Container: id, EndpointConfig: &network.EndpointSettings{Aliases: b.links[name]},
		})
		return err
	})
}

// retire stops the container, checks its exit code and removes it.
func (b *box) retire() {
	b.t.Helper()
	b.do("stop", func(ctx context.Context, id string) error {
		seconds := int(patience.Seconds())
		_, err := b.docker.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
		return err
	})
	b.do("look at", func(ctx context.Context, _ string) error {
		state, err := b.inner.State(ctx)
		if err == nil && state.ExitCode != 0 {
			b.t.Errorf("%s ended with code %d:\n%s", b.name, state.ExitCode, b.tail(ctx))
		}
		return err
	})
	b.do("remove", func(ctx context.Context, id string) error {
		_, err := b.docker.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return err
	})
}

// address is the address of a container's port on this machine, or "" while it has
// none. It changes when the container is restarted.
func (b *box) address(port string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	mapped, err := b.inner.MappedPort(ctx, port)
	if err != nil {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", mapped.Port())
}

// confined makes a process run without root, without capabilities and with a
// read-only root file system.
func confined(host *container.HostConfig) {
	host.ReadonlyRootfs = true
	host.CapDrop = []string{"ALL"}
	host.SecurityOpt = []string{"no-new-privileges"}
}

// ready waits until a process reports that it is ready.
func ready() wait.Strategy {
	return wait.ForHTTP("/readyz").WithPort("9100/tcp").WithStartupTimeout(patience)
}
