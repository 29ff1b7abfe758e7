#!/bin/sh
# Lints the chart, renders it over a table of values, and checks every manifest
# against the schemas of Kubernetes. It needs no cluster and downloads only Go
# modules: test.sh HELM KUBECONFORM SCHEMAS
set -eu
cd "$(dirname "$0")"
helm=$1 kubeconform=$2 schemas=$3
kubernetes=1.36.3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# Helm logs each symbolic link in the chart on every run.
quietly() { "$@" 2>"$work/err" || { grep -v 'found symbolic link' "$work/err" >&2; return 1; }; }

quietly "$helm" lint --strict --kube-version $kubernetes logboom --set secret.existing=logboom >"$work/lint" || { cat "$work/lint"; exit 1; }

for values in values/*.yaml; do
	name=$(basename "$values" .yaml)
	apis=$(sed -n 's/^# apis: //p' "$values")
	quietly "$helm" template release logboom --namespace logs --kube-version $kubernetes ${apis:+--api-versions $apis} -f "$values" >"$work/out.yaml" ||
		{ echo "$name: does not render"; exit 1; }
	# Kubernetes' own description does not contain the kinds of operators.
	"$kubeconform" -strict -summary -kubernetes-version $kubernetes -skip ScaledObject,PodMonitor,PrometheusRule \
		-schema-location "$schemas/{{ .ResourceKind }}{{ .KindSuffix }}.json" "$work/out.yaml" || { echo "$name: not valid"; exit 1; }
	sed -n 's/^# has: //p' "$values" | while read -r want; do
		grep -qF -- "$want" "$work/out.yaml" || { echo "$name: the manifests lack: $want"; exit 1; }
	done
	sed -n 's/^# lacks: //p' "$values" | while read -r none; do
		! grep -qF -- "$none" "$work/out.yaml" || { echo "$name: the manifests have: $none"; exit 1; }
	done
	echo "$name: passed"
done

# Settings that the chart must refuse. The error must name the wrong setting.
refuse() { # refuse TEXT SETTINGS…
	text=$1
	shift
	if "$helm" template release logboom --kube-version $kubernetes "$@" >"$work/out" 2>&1; then
		echo "was not refused: $*"
		exit 1
	fi
	grep -qF -- "$text" "$work/out" || { echo "refused without naming $text: $*"; cat "$work/out"; exit 1; }
}
refuse secret.existing
refuse /queue/replicas --set secret.existing=x --set queue.replicas=2
refuse trustedProxies --set secret.existing=x --set 'admin.trustedProxies={0.0.0.0/0}'
refuse NATS_URL --set secret.existing=x --set settings.NATS_URL=x
# Secrets are only referenced. A setting that has a value of its own is not set
# a second time.
for name in NATS_URL REDIS_URL CLICKHOUSE_URL SECRET_KEY OLD_SECRET_KEYS OIDC_CLIENT_SECRET BOOTSTRAP_TOKEN SHARDS INGEST_ADDR STOP_TIMEOUT; do
	refuse LOGBOOM_$name --set secret.existing=x --set settings.LOGBOOM_$name=x
	refuse LOGBOOM_$name --set secret.existing=x --set admin.settings.LOGBOOM_$name=x
done
refuse repicas --set secret.existing=x --set ingest.repicas=1
refuse queue.replicas --set secret.existing=x --set bundled.nats.enabled=true --set bundled.nats.replicas=1
refuse ingress.host --set secret.existing=x --set ingest.ingress.enabled=true
refuse prometheusAddress --set secret.existing=x --set writer.autoscaling.keda.mode=on
echo "refusals: passed"
