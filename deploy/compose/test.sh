#!/bin/sh
# Checks compose.yaml as Compose does, with the settings that init.sh writes:
# test.sh COMPOSE-GO. It starts nothing.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
mkdir "$work/compose"
cp -r engines "$work/"
cp compose/compose.yaml compose/example.env compose/init.sh "$work/compose/"
cd "$work/compose"

./init.sh >/dev/null
cp .env before
./init.sh >/dev/null
cmp .env before || { echo "init.sh changed an existing .env"; exit 1; }
[ "$(stat -c %a .env)" = 600 ] || { echo ".env can be read by others"; exit 1; }
! grep -q '@[A-Z0-9_]*@' redis-users.acl || { echo "redis-users.acl is not filled in"; exit 1; }
! grep -E '^LOGBOOM_.*(PASSWORD|KEY)=$' .env || { echo "a secret is empty"; exit 1; }

# The checker reads no environment, so the values are inserted.
sed 's/:?run init.sh}/}/' compose.yaml >plain.yaml
while IFS='=' read -r name value; do
	case $name in LOGBOOM_* | *_IMAGE | REDIS_*) sed -i "s|\${$name\(:-[^}]*\)\{0,1\}}|$value|g" plain.yaml ;; esac
done <.env
"$1" plain.yaml | sed '/^x-/,$d' >model.yaml
# Every Logboom process runs without root, without capabilities and with a
# read-only root file system.
ours=$(grep -c 'image: logboom/' model.yaml)
for line in 'user: "\{0,1\}65532:65532' 'stop_grace_period: 40s' '- ALL$'; do
	[ "$(grep -c -e "$line" model.yaml)" = "$ours" ] || { echo "not every Logboom process has $line"; exit 1; }
done
[ "$(grep -c 'read_only: true$' model.yaml)" -ge "$ours" ] || { echo "a root file system is writable"; exit 1; }
echo "compose.yaml: passed, $ours Logboom containers"
