{{/*
The pod of a service. All three have the same shape; what differs comes by the scope (_config.tpl).
*/}}

{{/* Variables of one service, in an order that lets $(POD_NAME) be used. Each name stands once. */}}
{{- define "oncelog.env" -}}
{{- $values := .root.Values -}}
{{- $settings := dict -}}
{{- $_ := set $settings "listen_host" $values.listeners.host -}}
{{- $_ := set $settings "listen_port" $values.listeners.internal.port -}}
{{- $_ := set $settings "advertised_address" (printf "%s:%v" (include "oncelog.podHost" .) $values.listeners.internal.port) -}}
{{- $_ := set $settings "health_port" $values.listeners.health.port -}}
{{- $_ := set $settings "health_host" $values.listeners.host -}}
{{- $_ := set $settings "etcd_endpoints" (include "oncelog.etcdEndpoints" .root) -}}
{{- $_ := set $settings "etcd_connect_timeout_ms" 120000 -}}
{{- $_ := set $settings "data_dir" "/var/lib/oncelog/data" -}}
{{- $_ := set $settings "log_level" $values.config.logLevel -}}
{{- if eq .key "partitionLeader" -}}
{{- $_ := set $settings "default_replication_factor" $values.config.defaultReplicationFactor -}}
{{- $_ := set $settings "internal_topic_replication_factor" $values.config.internalTopicReplicationFactor -}}
{{- $_ := set $settings "min_insync_replicas" $values.config.minInsyncReplicas -}}
{{- end -}}
{{- if eq .key "coordinator" -}}
{{- $_ := set $settings "transaction_max_timeout_ms" $values.config.transactionMaxTimeoutMs -}}
{{- end -}}
{{- range $name, $value := .config.settings -}}
{{- $_ := set $settings $name $value -}}
{{- end -}}
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
{{- if and (eq .key "partitionLeader") .config.rack.fromLabel (not (hasKey $settings "rack")) }}
- name: {{ .prefix }}RACK
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['{{ .config.rack.fromLabel }}']
{{- end }}
{{- range $name := keys $settings | sortAlpha }}
- name: {{ $.prefix }}{{ upper $name }}
  value: {{ include "oncelog.text" (get $settings $name) | quote }}
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
  {{- with .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .config.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .config.podAnnotations }}
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
serviceAccountName: {{ include "oncelog.serviceAccountName" . }}
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

{{/* The pod's spec of one of the three services. */}}
{{- define "oncelog.podSpec" -}}
{{- $image := deepCopy .root.Values.image -}}
{{- include "oncelog.mergeInto" (dict "into" $image "from" .config.image) -}}
{{- if and .config.image.tag (not .config.image.digest) }}{{ $_ := set $image "digest" "" }}{{ end -}}
{{- $health := .root.Values.listeners.health.port -}}
{{ include "oncelog.podPlacement" . | trim }}
{{- with .config.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: {{ .component }}
    image: {{ include "oncelog.image" (dict "root" .root "image" $image) }}
    imagePullPolicy: {{ $image.pullPolicy }}
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
      - name: grpc-internal
        containerPort: {{ .root.Values.listeners.internal.port }}
      - name: grpc-health
        containerPort: {{ $health }}
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
