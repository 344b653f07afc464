{{/*
The pod of a member of our own etcd. The upstream image has no shell: everything goes by variables.
Rule 1: a member is known by its pod's name, so a new pod on the same volume is the same member.
Rule 2: probes ask the plaintext metrics listener; only readiness needs a majority, and room: a restart makes neither.
*/}}

{{- define "oncelog.etcdEnv" -}}
{{- $tls := .root.Values.tls -}}
{{- $scheme := ternary "https" "http" $tls.internal.enabled -}}
{{- $bind := ternary "[::]" "0.0.0.0" (contains ":" .root.Values.listeners.host) -}}
{{- $peers := list -}}
{{- $headless := printf "%s-headless" .name -}}
{{- range until (int .config.replicaCount) -}}
{{- $pod := printf "%s-%d" $.name . -}}
{{- $host := include "oncelog.host" (dict "root" $.root "name" (printf "%s.%s" $pod $headless)) -}}
{{- $peers = append $peers (printf "%s=%s://%s:2380" $pod $scheme $host) -}}
{{- end -}}
{{- $self := include "oncelog.host" (dict "root" .root "name" (printf "$(ETCD_NAME).%s" $headless)) -}}
- name: ETCD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: ETCD_DATA_DIR
  value: /var/lib/etcd/data
- name: ETCD_LISTEN_CLIENT_URLS
  value: {{ $scheme }}://{{ $bind }}:2379
- name: ETCD_ADVERTISE_CLIENT_URLS
  value: {{ $scheme }}://{{ $self }}:2379
- name: ETCD_LISTEN_PEER_URLS
  value: {{ $scheme }}://{{ $bind }}:2380
- name: ETCD_INITIAL_ADVERTISE_PEER_URLS
  value: {{ $scheme }}://{{ $self }}:2380
- name: ETCD_LISTEN_METRICS_URLS
  value: http://{{ $bind }}:2381
- name: ETCD_INITIAL_CLUSTER
  value: {{ join "," $peers }}
- name: ETCD_INITIAL_CLUSTER_STATE
  value: new
- name: ETCD_INITIAL_CLUSTER_TOKEN
  value: {{ .name }}
- name: ETCD_AUTO_COMPACTION_MODE
  value: periodic
- name: ETCD_AUTO_COMPACTION_RETENTION
  value: 1h
- name: ETCD_LOG_LEVEL
  value: warn
{{- if $tls.internal.enabled }}
{{- range $side := list "" "PEER_" }}
- name: ETCD_{{ $side }}CERT_FILE
  value: /etc/etcd/tls/{{ $tls.secretKeys.cert }}
- name: ETCD_{{ $side }}KEY_FILE
  value: /etc/etcd/tls/{{ $tls.secretKeys.key }}
- name: ETCD_{{ $side }}TRUSTED_CA_FILE
  value: /etc/etcd/tls/{{ $tls.secretKeys.ca }}
- name: ETCD_{{ $side }}CLIENT_CERT_AUTH
  value: "true"
{{- end }}
{{- end }}
{{- with .config.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* dict path, probe */}}
{{- define "oncelog.etcdProbe" -}}
{{- $probe := deepCopy .probe -}}
{{- if not (or (hasKey $probe "grpc") (hasKey $probe "exec") (hasKey $probe "httpGet") (hasKey $probe "tcpSocket")) -}}
{{- $_ := set $probe "httpGet" (dict "port" "metrics" "path" .path) -}}
{{- end -}}
{{- toYaml $probe -}}
{{- end -}}

{{- define "oncelog.etcdPodSpec" -}}
{{ include "oncelog.podPlacement" . | trim }}
{{- with .config.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: etcd
    image: {{ include "oncelog.image" (dict "root" .root "image" .config.image) }}
    imagePullPolicy: {{ .config.image.pullPolicy }}
    command:
      {{- toYaml .config.command | nindent 6 }}
    {{- with .config.args }}
    args:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .config.containerSecurityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    env:
      {{- include "oncelog.etcdEnv" . | nindent 6 }}
    {{- with .config.extraEnvFrom }}
    envFrom:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    ports:
      - name: client
        containerPort: 2379
      - name: peer
        containerPort: 2380
      - name: metrics
        containerPort: 2381
    {{- with .config.lifecycleHooks }}
    lifecycle:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    startupProbe:
      {{- include "oncelog.etcdProbe" (dict "path" "/health?exclude=NOSPACE&serializable=true" "probe" .config.startupProbe) | nindent 6 }}
    livenessProbe:
      {{- include "oncelog.etcdProbe" (dict "path" "/health?exclude=NOSPACE&serializable=true" "probe" .config.livenessProbe) | nindent 6 }}
    readinessProbe:
      {{- include "oncelog.etcdProbe" (dict "path" "/health" "probe" .config.readinessProbe) | nindent 6 }}
    resources:
      {{- toYaml .config.resources | nindent 6 }}
    volumeMounts:
      - name: data
        mountPath: /var/lib/etcd
      {{- if .root.Values.tls.internal.enabled }}
      - name: tls
        mountPath: /etc/etcd/tls
        readOnly: true
      {{- end }}
      {{- with .config.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
  {{- with .config.extraContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if or (not .claims) .config.extraVolumes .root.Values.tls.internal.enabled }}
volumes:
  {{- if not .claims }}
  - name: data
    emptyDir: {}
  {{- end }}
  {{- if .root.Values.tls.internal.enabled }}
  - name: tls
    secret:
      secretName: {{ include "oncelog.internalSecret" . }}
      defaultMode: 0440
  {{- end }}
  {{- with .config.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}
