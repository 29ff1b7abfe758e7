#!/bin/sh
# Builds images of the engines and of every process without a registry:
# local/nats, local/redis, local/clickhouse (the embedded engine as a server) and
# local/logboom-<process>. The cluster's tests use them. It needs Docker, Go, a
# Redis server (Debian's redis-tools contains one) and the library that `make
# engine` downloads. If busybox is installed, the engines can answer the health
# checks of deploy/compose. Arguments name the images to build: nats, redis,
# clickhouse, ingest, writer, notifier, admin.
set -eu
cd "$(dirname "$0")/../.."

work=$(mktemp -d "${TMPDIR:-/tmp}/logboom-images-XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

# libraries ROOT BINARY copies the libraries that a dynamic binary needs.
libraries() {
	ldd "$2" | grep -o '/[^ ]*' | while read -r file; do
		mkdir -p "$1$(dirname "$file")"
		cp -L "$file" "$1$file"
	done
}

# root NAME creates an empty folder for the root of an image.
root() {
	mkdir -p "$work/$1/usr/local/bin" "$work/$1/etc" "$work/$1/tmp" "$work/$1/data"
	echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >"$work/$1/etc/passwd"
	chmod 1777 "$work/$1/tmp"
	echo "$work/$1"
}

# tools ROOT adds the commands of health checks.
tools() {
	busybox=$(command -v busybox) || return 0
	mkdir -p "$1/bin"
	cp -L "$busybox" "$1/bin/busybox"
	libraries "$1" "$busybox"
	for name in sh grep wget; do ln -s busybox "$1/bin/$name"; done
}

# import NAME ENTRYPOINT creates the image local/NAME from the folder. Its user
# owns all files.
import() {
	tar -C "$work/$1" --owner=65532 --group=65532 -c . |
		docker import -c 'USER 65532:65532' -c "ENTRYPOINT $2" ${3:+-c "$3"} - "local/$1:latest" >/dev/null
	rm -rf "${work:?}/$1"
	echo "local/$1"
}

nats() {
	to=$(root nats)
	CGO_ENABLED=0 go build -mod=readonly -trimpath -o "$to/usr/local/bin/nats-server" github.com/nats-io/nats-server/v2
	tools "$to"
	import nats '["/usr/local/bin/nats-server"]'
}

redis() {
	to=$(root redis)
	server=$(command -v redis-server || command -v redis-check-rdb) ||
		{ echo "no Redis server on this machine: install redis-server or Debian's redis-tools" >&2; exit 1; }
	cp -L "$server" "$to/usr/local/bin/redis-server"
	libraries "$to" "$server"
	if client=$(command -v redis-cli); then
		cp -L "$client" "$to/usr/local/bin/redis-cli"
		libraries "$to" "$client"
	fi
	tools "$to"
	import redis '["/usr/local/bin/redis-server"]'
}

clickhouse() {
	to=$(root clickhouse)
	library=${LOGBOOM_CLICKHOUSE_ENGINE:-$(go run -mod=readonly ./pkg/embedded/engine/fetch)}
	CGO_ENABLED=0 go build -mod=readonly -trimpath -o "$to/usr/local/bin/clickhouse" ./pkg/e2e/cluster/clickhouse
	mkdir -p "$to/usr/local/lib" "$to/var/lib/clickhouse"
	cp -L "$library" "$to/usr/local/lib/libchdb.so"
	libraries "$to" "$to/usr/local/bin/clickhouse"
	libraries "$to" "$library"
	tools "$to"
	import clickhouse '["/usr/local/bin/clickhouse"]' 'ENV LOGBOOM_CLICKHOUSE_ENGINE=/usr/local/lib/libchdb.so'
}

# process NAME builds a process as in a release, on an empty base: the same file,
# the same user, the same entry point.
process() {
	to=$(root "$1")
	CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags='-s -w' -o "$to/usr/local/bin/logboom" "./cmd/$1"
	if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
		mkdir -p "$to/etc/ssl/certs"
		cp -L /etc/ssl/certs/ca-certificates.crt "$to/etc/ssl/certs/"
	fi
	docker build -q -f deploy/Dockerfile --target prebuilt --build-arg BASE=scratch -t "local/logboom-$1:latest" "$to" >/dev/null
	rm -rf "$to"
	echo "local/logboom-$1"
}

[ $# -gt 0 ] || set -- nats redis clickhouse ingest writer admin $(test ! -d cmd/notifier || echo notifier)
for name; do
	case $name in
	nats | redis | clickhouse) $name ;;
	ingest | writer | notifier | admin) process "$name" ;;
	*) echo "no image is called $name" >&2; exit 1 ;;
	esac
done
