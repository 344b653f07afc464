{{/*
The pod of a service. All three have the same shape; what differs comes by the scope (_config.tpl).
*/}}

{{/*
Settings of one service by name: what the chart sets itself, and over it what the user sets. Changes the scope: .settings
*/}}
{{- define "oncelog.fillSettings" -}}
{{- $values := .root.Values -}}
{{- $ports := $values.listeners -}}
{{- $settings := dict
  "listen_host" $values.listeners.host
  "listen_port" $ports.internal.port
  "advertised_address" (printf "%s:%v" (include "oncelog.podHost" .) $ports.internal.port)
  "health_host" $values.listeners.host
  "health_port" $ports.health.port
  "etcd_endpoints" (include "oncelog.etcdEndpoints" .root)
  "etcd_connect_timeout_ms" 120000
  "data_dir" "/var/lib/oncelog/data"
  "log_level" $values.config.logLevel
-}}
{{- if eq .key "partitionLeader" -}}
{{- $_ := set $settings "default_replication_factor" $values.config.defaultReplicationFactor -}}
{{- $_ := set $settings "internal_topic_replication_factor" $values.config.internalTopicReplicationFactor -}}
{{- $_ := set $settings "min_insync_replicas" $values.config.minInsyncReplicas -}}
{{- end -}}
{{- if or (eq .key "coordinator") (eq .key "partitionLeader") -}}
{{- $_ := set $settings "transaction_max_timeout_ms" $values.config.transactionMaxTimeoutMs -}}
{{- end -}}
{{- if .clients -}}
{{- $_ := set $settings "client_listen_port" $ports.client.port -}}
{{- if $values.externalAccess.enabled -}}
{{- $_ := set $settings "external_listen_port" $ports.external.port -}}
{{- $_ := set $settings "config" "/etc/oncelog/pod.toml" -}}
{{- end -}}
{{- end -}}
{{- if $values.metrics.enabled -}}
{{- $_ := set $settings "metrics_host" $values.listeners.host -}}
{{- $_ := set $settings "metrics_port" $ports.metrics.port -}}
{{- $_ := set $settings "metrics_per_partition" $values.metrics.perPartition -}}
{{- end -}}
{{- if $values.tracing.enabled -}}
{{- $_ := set $settings "otlp_endpoint" (include "oncelog.otlpEndpoint" .root) -}}
{{- $_ := set $settings "trace_sampler" $values.tracing.sampler -}}
{{- $_ := set $settings "trace_sampler_arg" $values.tracing.samplerArg -}}
{{- end -}}
{{- include "oncelog.mergeInto" (dict "into" $settings "from" (include "oncelog.tlsSettings" . | fromYaml)) -}}
{{- include "oncelog.mergeInto" (dict "into" $settings "from" (include "oncelog.authSettings" . | fromYaml)) -}}
{{- include "oncelog.mergeInto" (dict "into" $settings "from" .config.settings) -}}
{{- $_ := set . "settings" $settings -}}
{{- end -}}

{{/* Variables of one service, in an order that lets $(POD_NAME) be used. Each name stands once. */}}
{{- define "oncelog.env" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- if .ordinal }}
- name: {{ .prefix }}NODE_ID
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['apps.kubernetes.io/pod-index']
{{- end }}
{{- if and (eq .key "partitionLeader") .config.rack.fromLabel }}
- name: {{ .prefix }}RACK
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['{{ .config.rack.fromLabel }}']
{{- end }}
{{- range $name := keys .settings | sortAlpha }}
- name: {{ $.prefix }}{{ upper $name }}
  value: {{ include "oncelog.text" (get $.settings $name) | quote }}
{{- end }}
{{- with .config.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* How others reach this pod: by its name where it has one of its own, else by its address. */}}
{{- define "oncelog.podHost" -}}
{{- if .ordinal -}}
{{- include "oncelog.host" (dict "root" .root "name" (printf "$(POD_NAME).%s-headless" .name)) -}}
{{- else -}}
{{- ternary "[$(POD_IP)]" "$(POD_IP)" (contains ":" .root.Values.listeners.host) -}}
{{- end -}}
{{- end -}}

{{/* dict service, probe, port */}}
{{- define "oncelog.grpcProbe" -}}
{{- $probe := deepCopy .probe -}}
{{- if not (or (hasKey $probe "grpc") (hasKey $probe "exec") (hasKey $probe "httpGet") (hasKey $probe "tcpSocket")) -}}
{{- $_ := set $probe "grpc" (dict "port" (int .port) "service" .service) -}}
{{- end -}}
{{- toYaml $probe -}}
{{- end -}}

{{- define "oncelog.podMetadata" -}}
labels:
  {{- include "oncelog.selectorLabels" . | nindent 2 }}
  {{- with merge (dict) .config.podLabels .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := deepCopy .config.podAnnotations }}
{{- with .checksum }}
{{- $_ := set $annotations "checksum/config" . }}
{{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Scheduling, pull secrets, security: all that is not about what runs. Needs config, component, root. */}}
{{- define "oncelog.podPlacement" -}}
{{- $secrets := concat (.root.Values.global.imagePullSecrets | default list) (.root.Values.image.pullSecrets | default list) }}
{{- with $secrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ ternary (get (ternary . dict (kindIs "map" .)) "name") . (kindIs "map" .) }}
  {{- end }}
{{- end }}
serviceAccountName: {{ .serviceAccountName | default (include "oncelog.serviceAccountName" .) }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .config.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .config.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .config.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .config.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .config.affinity }}
affinity:
  {{- toYaml .config.affinity | nindent 2 }}
{{- else if ne .config.podAntiAffinity.type "none" }}
affinity:
  podAntiAffinity:
    {{- if eq .config.podAntiAffinity.type "hard" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: {{ .config.podAntiAffinity.topologyKey }}
        labelSelector:
          matchLabels:
            {{- include "oncelog.selectorLabels" . | nindent 12 }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: {{ .config.podAntiAffinity.topologyKey }}
          labelSelector:
            matchLabels:
              {{- include "oncelog.selectorLabels" . | nindent 14 }}
    {{- end }}
{{- end }}
{{- with .config.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{ toYaml (omit . "labelSelector") | nindent 4 | trim }}
    labelSelector:
      {{- if .labelSelector }}
      {{- toYaml .labelSelector | nindent 6 }}
      {{- else }}
      matchLabels:
        {{- include "oncelog.selectorLabels" $ | nindent 8 }}
      {{- end }}
  {{- end }}
{{- end }}
terminationGracePeriodSeconds: {{ .config.terminationGracePeriodSeconds }}
{{- end -}}

{{/* The image of our own code, with the component's own parts. */}}
{{- define "oncelog.ownImage" -}}
{{- $image := deepCopy .root.Values.image -}}
{{- with .config.image -}}
{{- if and .tag (not .digest) }}{{ $_ := set $image "digest" "" }}{{ end -}}
{{- include "oncelog.mergeInto" (dict "into" $image "from" .) -}}
{{- end -}}
image: {{ include "oncelog.image" (dict "root" .root "image" $image) }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end -}}

{{/*
What the container does before it gets SIGTERM: it hands over all that only it does. The command finds the service in the
container's own environment. It ends by itself in time; when it does not, SIGTERM drains once more.
*/}}
{{- define "oncelog.lifecycle" -}}
{{- if .config.lifecycleHooks }}
lifecycle:
  {{- toYaml .config.lifecycleHooks | nindent 2 }}
{{- else if (.config.drain | default dict).enabled }}
lifecycle:
  preStop:
    exec:
      command: [oncelog, node, drain, --self, --timeout, {{ .config.drain.timeoutSeconds | quote }}]
{{- end }}
{{- end -}}

{{/* The pod's spec of one of the three services. */}}
{{- define "oncelog.podSpec" -}}
{{- include "oncelog.fillSettings" . -}}
{{- $ports := .root.Values.listeners -}}
{{- $health := $ports.health.port -}}
{{- $issuer := ternary (include "oncelog.issuerSources" .root) "" (eq true .clients) -}}
{{ include "oncelog.podPlacement" . | trim }}
{{- with .config.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: {{ .component }}
    {{- include "oncelog.ownImage" . | nindent 4 }}
    command: [oncelog-{{ .component }}]
    {{- with .config.containerSecurityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    env:
      {{- include "oncelog.env" . | nindent 6 }}
    {{- with .config.extraEnvFrom }}
    envFrom:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    ports:
      {{- if .clients }}
      - name: grpc-client
        containerPort: {{ $ports.client.port }}
      {{- if .root.Values.externalAccess.enabled }}
      - name: grpc-external
        containerPort: {{ $ports.external.port }}
      {{- end }}
      {{- end }}
      - name: grpc-internal
        containerPort: {{ $ports.internal.port }}
      - name: grpc-health
        containerPort: {{ $health }}
      {{- if .root.Values.metrics.enabled }}
      - name: metrics
        containerPort: {{ $ports.metrics.port }}
      {{- end }}
    {{- with include "oncelog.lifecycle" . | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    startupProbe:
      {{- include "oncelog.grpcProbe" (dict "service" "startup" "probe" .config.startupProbe "port" $health) | nindent 6 }}
    livenessProbe:
      {{- include "oncelog.grpcProbe" (dict "service" "liveness" "probe" .config.livenessProbe "port" $health) | nindent 6 }}
    readinessProbe:
      {{- include "oncelog.grpcProbe" (dict "service" "readiness" "probe" .config.readinessProbe "port" $health) | nindent 6 }}
    resources:
      {{- toYaml .config.resources | nindent 6 }}
    volumeMounts:
      - name: tmp
        mountPath: /tmp
      - name: data
        mountPath: /var/lib/oncelog
      {{- if and .clients .root.Values.externalAccess.enabled }}
      - name: external
        mountPath: /etc/oncelog/pod.toml
        subPathExpr: $(POD_NAME).toml
        readOnly: true
      {{- end }}
      {{- range include "oncelog.tlsVolumes" . | fromYamlArray }}
      - name: {{ .name }}
        mountPath: {{ .path }}
        readOnly: true
      {{- end }}
      {{- if $issuer }}
      - name: issuer
        mountPath: /etc/oncelog/issuer
        readOnly: true
      {{- end }}
      {{- with .config.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
  {{- with .config.extraContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
  - name: tmp
    emptyDir: {}
  {{- if not .claims }}
  - name: data
    emptyDir: {}
  {{- end }}
  {{- if and .clients .root.Values.externalAccess.enabled }}
  - name: external
    configMap:
      name: {{ .name }}-external
  {{- end }}
  {{- range include "oncelog.tlsVolumes" . | fromYamlArray }}
  - name: {{ .name }}
    secret:
      secretName: {{ .secret }}
      defaultMode: 0440
  {{- end }}
  {{- with $issuer }}
  - name: issuer
    projected:
      defaultMode: 0440
      sources:
        {{- . | nindent 8 }}
  {{- end }}
  {{- with .config.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/*
The claim of a StatefulSet. Kubernetes lets nothing of it be changed later: labels of selectors only, and a fixed name.
*/}}
{{- define "oncelog.volumeClaim" -}}
{{- $persistence := .config.persistence -}}
- metadata:
    name: data
    labels:
      {{- include "oncelog.selectorLabels" . | nindent 6 }}
    {{- with $persistence.annotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    accessModes:
      {{- toYaml $persistence.accessModes | nindent 6 }}
    {{- $class := $persistence.storageClass | default .root.Values.global.storageClass }}
    {{- if $class }}
    storageClassName: {{ ternary "" $class (eq $class "-") | quote }}
    {{- end }}
    resources:
      requests:
        storage: {{ $persistence.size }}
{{- end -}}
