#!/bin/sh
# Writes .env and redis-users.acl with random passwords. Existing files are not
# changed.
set -eu
cd "$(dirname "$0")"
umask 077

secret() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
digest() { printf %s "$1" | sha256sum | cut -d' ' -f1; }

if [ ! -e .env ]; then
	# Each begins with a letter, because NATS reads a password of digits as a number.
	sed "s/^\(LOGBOOM_[A-Z_]*_PASSWORD\)=.*/\1=@/; s/^\(LOGBOOM_BOOTSTRAP_API_KEY\)=.*/\1=@/" example.env |
		while IFS= read -r line; do
			case $line in
			LOGBOOM_SECRET_KEY=*) echo "LOGBOOM_SECRET_KEY=$(head -c 32 /dev/urandom | base64)" ;;
			*=@) echo "${line%@}p$(secret)" ;;
			*) echo "$line" ;;
			esac
		done >.env
	echo "wrote $(pwd)/.env: it contains the API key and the admin's password"
fi
. ./.env
if [ ! -e redis-users.acl ]; then
	sed "s/@INGEST_SHA256@/$(digest "$LOGBOOM_REDIS_INGEST_PASSWORD")/; s/@ADMIN_SHA256@/$(digest "$LOGBOOM_REDIS_ADMIN_PASSWORD")/" \
		../engines/redis-users.acl >redis-users.acl
	chmod 644 redis-users.acl # contains only digests; the server runs as another user
	echo "wrote $(pwd)/redis-users.acl"
fi
