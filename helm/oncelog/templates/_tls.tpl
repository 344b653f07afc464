{{/*
Certificates: which secrets there are, where they are mounted, what the services are told.
Rule 1: an existing secret wins, a component's own first; else cert-manager issues one for each component (internal), one for
        all client listeners, and one for the jobs where clients must show one.
Rule 2: secrets are mounted as folders, never by subPath: renewed files appear by themselves.
*/}}

{{/* The secret of internal TLS of a component. Scope: root, key, name */}}
{{- define "oncelog.internalSecret" -}}
{{- $internal := .root.Values.tls.internal -}}
{{- get $internal.existingSecrets .key | default $internal.existingSecret | default (printf "%s-internal-tls" .name) -}}
{{- end -}}

{{- define "oncelog.clientSecret" -}}
{{- .Values.tls.client.existingSecret | default (printf "%s-client-tls" (include "oncelog.fullname" .)) -}}
{{- end -}}

{{/* Who issues the certificates of client listeners, and of the jobs. */}}
{{- define "oncelog.clientIssuer" -}}
{{- toYaml (ternary .Values.tls.certManager.clientIssuerRef .Values.tls.certManager.issuerRef (ne .Values.tls.certManager.clientIssuerRef.name "")) -}}
{{- end -}}

{{/* The folders of one of our services: a YAML list of name, secret, path. */}}
{{- define "oncelog.tlsVolumes" -}}
{{- $volumes := list -}}
{{- if .root.Values.tls.internal.enabled -}}
{{- $volumes = append $volumes (dict "name" "tls-internal" "path" "/etc/oncelog/tls/internal" "secret" (include "oncelog.internalSecret" .)) -}}
{{- end -}}
{{- if and .clients .root.Values.tls.client.enabled -}}
{{- $volumes = append $volumes (dict "name" "tls-client" "path" "/etc/oncelog/tls/client" "secret" (include "oncelog.clientSecret" .root)) -}}
{{- end -}}
{{- if and (not .root.Values.etcd.enabled) .root.Values.externalEtcd.tls.enabled -}}
{{- $volumes = append $volumes (dict "name" "tls-etcd" "path" "/etc/oncelog/tls/etcd" "secret" .root.Values.externalEtcd.tls.existingSecret) -}}
{{- end -}}
{{- toYaml $volumes -}}
{{- end -}}

{{/* Settings about certificates, as a YAML map. */}}
{{- define "oncelog.tlsSettings" -}}
{{- $values := .root.Values -}}
{{- $keys := $values.tls.secretKeys -}}
{{- $settings := dict -}}
{{- if $values.tls.internal.enabled -}}
{{- range $name, $key := $keys -}}
{{- $_ := set $settings (printf "tls_%s_file" $name) (printf "/etc/oncelog/tls/internal/%s" $key) -}}
{{- if $values.etcd.enabled -}}
{{- $_ := set $settings (printf "etcd_tls_%s_file" $name) (printf "/etc/oncelog/tls/internal/%s" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .clients $values.tls.client.enabled -}}
{{- range $name, $key := $keys -}}
{{- $_ := set $settings (printf "client_tls_%s_file" $name) (printf "/etc/oncelog/tls/client/%s" $key) -}}
{{- end -}}
{{- $_ := set $settings "client_tls_require_certificate" $values.tls.client.requireClientCertificate -}}
{{- end -}}
{{- if and (not $values.etcd.enabled) $values.externalEtcd.tls.enabled -}}
{{- $tls := $values.externalEtcd.tls -}}
{{- $_ := set $settings "etcd_tls_ca_file" (printf "/etc/oncelog/tls/etcd/%s" $tls.secretKeys.ca) -}}
{{- if $tls.clientCertificate -}}
{{- $_ := set $settings "etcd_tls_cert_file" (printf "/etc/oncelog/tls/etcd/%s" $tls.secretKeys.cert) -}}
{{- $_ := set $settings "etcd_tls_key_file" (printf "/etc/oncelog/tls/etcd/%s" $tls.secretKeys.key) -}}
{{- end -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end -}}

{{/* All names by which a service or its pods are reached, as a YAML list. dict root, services (names), pods (headless names) */}}
{{- define "oncelog.dnsNames" -}}
{{- $names := list -}}
{{- range .services -}}
{{- $names = concat $names (list . (printf "%s.%s" . $.root.Release.Namespace) (printf "%s.%s.svc" . $.root.Release.Namespace) (include "oncelog.host" (dict "root" $.root "name" .))) -}}
{{- end -}}
{{- range .pods -}}
{{- $names = concat $names (list (printf "*.%s.%s.svc" . $.root.Release.Namespace) (include "oncelog.host" (dict "root" $.root "name" (printf "*.%s" .)))) -}}
{{- end -}}
{{- toYaml (append $names "localhost") -}}
{{- end -}}
