{{/*
Who clients are, and who may do what: what the services are told, what their pods need for it, and who the chart's jobs are.
Rule 1: one issuer of tokens: `auth.jwt`, or this Kubernetes (`auth.kubernetes`), whose keys come from a URL unless a file is named.
Rule 2: a pod has the tokens that it needs, each projected with its own audience and life, never the mounted one of Kubernetes.
Rule 3: a job is somebody: by its service account, by a token, or by a certificate of its own. Who cannot be anybody is refused
        at template time (_validate.tpl).
*/}}

{{/* The issuer's keys: a YAML map of issuer, audience, url, configMap, secret, key, caConfigMap, caKey, bearerSecret, ownBearer.
Empty without an issuer. */}}
{{- define "oncelog.issuer" -}}
{{- $auth := .Values.auth -}}
{{- $jwks := $auth.jwt.jwks -}}
{{- if or $auth.kubernetes.enabled $auth.jwt.issuer -}}
{{- $issuer := dict "issuer" $auth.jwt.issuer "audience" $auth.jwt.audience "url" "" "configMap" $jwks.existingConfigMap "secret" $jwks.existingSecret "key" $jwks.key "caConfigMap" "" "caKey" $jwks.caKey "bearerSecret" "" "ownBearer" false -}}
{{- $file := or $jwks.existingConfigMap $jwks.existingSecret -}}
{{- if $auth.kubernetes.enabled -}}
{{- $_ := set $issuer "issuer" $auth.kubernetes.issuer -}}
{{- $_ := set $issuer "audience" $auth.kubernetes.audience -}}
{{- if not $file -}}
{{- $_ := set $issuer "url" $auth.kubernetes.jwksUrl -}}
{{- $_ := set $issuer "caConfigMap" $auth.kubernetes.caConfigMap -}}
{{- $_ := set $issuer "caKey" "ca.crt" -}}
{{- $_ := set $issuer "ownBearer" true -}}
{{- end -}}
{{- else if not $file -}}
{{- $_ := set $issuer "url" $jwks.url -}}
{{- $_ := set $issuer "caConfigMap" $jwks.caConfigMap -}}
{{- $_ := set $issuer "bearerSecret" $jwks.bearerSecret -}}
{{- $_ := set $issuer "bearerKey" $jwks.bearerKey -}}
{{- end -}}
{{- toYaml $issuer -}}
{{- end -}}
{{- end -}}

{{/* The files of the issuer in a service's pod: sources of a projected volume, as a YAML list; empty when there are none. */}}
{{- define "oncelog.issuerSources" -}}
{{- $issuer := include "oncelog.issuer" . | fromYaml -}}
{{- $sources := list -}}
{{- with $issuer -}}
{{- if .configMap -}}
{{- $sources = append $sources (dict "configMap" (dict "name" .configMap "items" (list (dict "key" .key "path" "jwks.json")))) -}}
{{- else if .secret -}}
{{- $sources = append $sources (dict "secret" (dict "name" .secret "items" (list (dict "key" .key "path" "jwks.json")))) -}}
{{- end -}}
{{- if .caConfigMap -}}
{{- $sources = append $sources (dict "configMap" (dict "name" .caConfigMap "items" (list (dict "key" .caKey "path" "ca.crt")))) -}}
{{- end -}}
{{- if .bearerSecret -}}
{{- $sources = append $sources (dict "secret" (dict "name" .bearerSecret "items" (list (dict "key" .bearerKey "path" "token")))) -}}
{{- end -}}
{{- if .ownBearer -}}
{{- $sources = append $sources (dict "serviceAccountToken" (dict "path" "token" "expirationSeconds" $.Values.auth.kubernetes.tokenExpirationSeconds)) -}}
{{- end -}}
{{- end -}}
{{- if $sources }}{{ toYaml $sources }}{{ end -}}
{{- end -}}

{{/* Settings of a service about who may come in, as a YAML map. Scope: root, key, clients */}}
{{- define "oncelog.authSettings" -}}
{{- $auth := .root.Values.auth -}}
{{- $settings := dict -}}
{{- with include "oncelog.serviceRules" .root -}}
{{- $_ := set $settings "service_rules" . -}}
{{- end -}}
{{- if .clients -}}
{{- if $auth.requireSessionTokens -}}
{{- $_ := set $settings "require_session_tokens" true -}}
{{- end -}}
{{- if eq $auth.authorization "acl" -}}
{{- $_ := set $settings "authorization" "acl" -}}
{{- $supers := $auth.superUsers -}}
{{- with (include "oncelog.jobIdentity" .root | fromYaml).principal -}}
{{- $supers = append $supers . -}}
{{- end -}}
{{- with $supers -}}
{{- $_ := set $settings "super_users" (uniq .) -}}
{{- end -}}
{{- with $auth.principalRules -}}
{{- $_ := set $settings "principal_rules" (join "; " .) -}}
{{- end -}}
{{- with include "oncelog.issuer" .root | fromYaml -}}
{{- $_ := set $settings "jwt_issuer" .issuer -}}
{{- $_ := set $settings "jwt_audience" .audience -}}
{{- $_ := set $settings "jwt_principal_claim" $auth.jwt.principalClaim -}}
{{- $_ := set $settings "jwt_jwks" (.url | default "/etc/oncelog/issuer/jwks.json") -}}
{{- if .caConfigMap -}}
{{- $_ := set $settings "jwt_jwks_ca_file" "/etc/oncelog/issuer/ca.crt" -}}
{{- end -}}
{{- if or .bearerSecret .ownBearer -}}
{{- $_ := set $settings "jwt_jwks_bearer_file" "/etc/oncelog/issuer/token" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end -}}

{{/*
Which service a certificate of internal TLS is: by the name of its headless service, which it holds once. Not by the wildcard of its
pods, which the certificate of the client listeners holds too.
*/}}
{{- define "oncelog.serviceRules" -}}
{{- $internal := .Values.tls.internal -}}
{{- if $internal.enabled -}}
{{- if $internal.serviceRules -}}
{{- if ne $internal.serviceRules "-" }}{{ $internal.serviceRules }}{{ end -}}
{{- else if include "oncelog.ownSecrets" . -}}
{{- $rules := list -}}
{{- range $key, $service := dict "partitionLeader" "partition_leader" "coordinator" "coordinator" "pidAllocator" "pid_allocator" -}}
{{- $name := include "oncelog.componentName" (dict "root" $ "component" (kebabcase $key)) -}}
{{- $host := include "oncelog.host" (dict "root" $ "name" (printf "%s-headless" $name)) -}}
{{- $rules = append $rules (printf "dns:%s=>%s" ($host | replace "." "[.]") $service) -}}
{{- end -}}
{{- join "; " $rules -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Not empty when each service has a secret of its own. */}}
{{- define "oncelog.ownSecrets" -}}
{{- $secrets := list -}}
{{- range $key := list "partitionLeader" "coordinator" "pidAllocator" -}}
{{- $scope := dict "root" $ "key" $key "name" (include "oncelog.componentName" (dict "root" $ "component" (kebabcase $key))) -}}
{{- $secrets = append $secrets (include "oncelog.internalSecret" $scope) -}}
{{- end -}}
{{- if eq (len (uniq $secrets)) 3 }}true{{ end -}}
{{- end -}}

{{/*
Who the chart's jobs are: a YAML map of principal (empty: nobody in particular), token (kubernetes, secret or empty), and
certificate (the secret that they show, or empty).
*/}}
{{- define "oncelog.jobIdentity" -}}
{{- $auth := .Values.auth -}}
{{- $client := .Values.tls.client -}}
{{- $identity := dict "principal" $auth.jobs.principal "token" "" "certificate" "" -}}
{{- $shows := and $client.enabled $client.requireClientCertificate -}}
{{- if $shows -}}
{{- $own := include "oncelog.jobCertificate" . -}}
{{- $_ := set $identity "certificate" ($auth.jobs.certificateSecret | default $own | default (include "oncelog.clientSecret" .)) -}}
{{- end -}}
{{- $account := printf "%s:%s" .Release.Namespace (include "oncelog.jobAccount" .) -}}
{{- if $auth.kubernetes.enabled -}}
{{- $_ := set $identity "token" "kubernetes" -}}
{{- if eq $auth.jwt.principalClaim "sub" -}}
{{- $_ := set $identity "principal" (printf "User:system:serviceaccount:%s" $account) -}}
{{- end -}}
{{- else if $auth.jobs.tokenSecret -}}
{{- $_ := set $identity "token" "secret" -}}
{{- else if and $shows (not $auth.jobs.principal) (not $auth.jobs.certificateSecret) (not $auth.principalRules) (include "oncelog.jobCertificate" .) -}}
{{- $_ := set $identity "principal" (printf "User:%s" (include "oncelog.jobUri" .)) -}}
{{- end -}}
{{- toYaml $identity -}}
{{- end -}}

{{/* The secret that cert-manager fills with the jobs' own certificate; empty when it does not. */}}
{{- define "oncelog.jobCertificate" -}}
{{- $client := .Values.tls.client -}}
{{- if and (eq .Values.auth.authorization "acl") $client.enabled $client.requireClientCertificate .Values.tls.certManager.enabled (not .Values.auth.jobs.certificateSecret) (not $client.existingSecret) -}}
{{- printf "%s-jobs-tls" (include "oncelog.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "oncelog.jobUri" -}}
{{- printf "spiffe://%s/ns/%s/sa/%s" .Values.clusterDomain .Release.Namespace (include "oncelog.jobAccount" .) -}}
{{- end -}}

{{/* The service account of the jobs, with `auth.kubernetes`. */}}
{{- define "oncelog.jobAccount" -}}
{{- $scope := dict "root" . "key" "jobs" -}}
{{- include "oncelog.fillScope" $scope -}}
{{- include "oncelog.serviceAccountName" $scope -}}
{{- end -}}

{{/* Volumes and mounts of a job's identity: a YAML map of volumes and mounts. */}}
{{- define "oncelog.jobFiles" -}}
{{- $identity := include "oncelog.jobIdentity" . | fromYaml -}}
{{- $client := .Values.tls.client -}}
{{- $volumes := list -}}
{{- $mounts := list -}}
{{- if $client.enabled -}}
{{- $secret := dict "secretName" (include "oncelog.clientSecret" .) "defaultMode" 288 -}}
{{- /* The listeners' own key is for jobs only that show it. */ -}}
{{- if ne $identity.certificate $secret.secretName -}}
{{- $_ := set $secret "items" (list (dict "key" .Values.tls.secretKeys.ca "path" .Values.tls.secretKeys.ca)) -}}
{{- end -}}
{{- $volumes = append $volumes (dict "name" "tls-client" "secret" $secret) -}}
{{- $mounts = append $mounts (dict "name" "tls-client" "mountPath" "/etc/oncelog/tls/client" "readOnly" true) -}}
{{- end -}}
{{- if and $identity.certificate (ne $identity.certificate (include "oncelog.clientSecret" .)) -}}
{{- $volumes = append $volumes (dict "name" "tls-job" "secret" (dict "secretName" $identity.certificate "defaultMode" 288)) -}}
{{- $mounts = append $mounts (dict "name" "tls-job" "mountPath" "/etc/oncelog/tls/job" "readOnly" true) -}}
{{- end -}}
{{- if $identity.token -}}
{{- $kubernetes := .Values.auth.kubernetes -}}
{{- $source := dict "secret" (dict "name" .Values.auth.jobs.tokenSecret "items" (list (dict "key" .Values.auth.jobs.tokenKey "path" "token"))) -}}
{{- if eq $identity.token "kubernetes" -}}
{{- $source = dict "serviceAccountToken" (dict "path" "token" "audience" $kubernetes.audience "expirationSeconds" $kubernetes.tokenExpirationSeconds) -}}
{{- end -}}
{{- $volumes = append $volumes (dict "name" "token" "projected" (dict "defaultMode" 288 "sources" (list $source))) -}}
{{- $mounts = append $mounts (dict "name" "token" "mountPath" "/var/run/secrets/oncelog" "readOnly" true) -}}
{{- end -}}
{{- toYaml (dict "volumes" $volumes "mounts" $mounts) -}}
{{- end -}}

{{/* What a client of the cluster in a job is told: a YAML list of variables. */}}
{{- define "oncelog.clientEnv" -}}
{{- $identity := include "oncelog.jobIdentity" . | fromYaml -}}
{{- $keys := .Values.tls.secretKeys -}}
- name: ONCELOG_BOOTSTRAP_SERVERS
  value: {{ include "oncelog.bootstrap" . }}
{{- if .Values.tls.client.enabled }}
- name: ONCELOG_SECURITY_PROTOCOL
  value: SSL
- name: ONCELOG_SSL_CAFILE
  value: /etc/oncelog/tls/client/{{ $keys.ca }}
{{- with $identity.certificate }}
{{- $folder := ternary "client" "job" (eq . (include "oncelog.clientSecret" $)) }}
- name: ONCELOG_SSL_CERTFILE
  value: /etc/oncelog/tls/{{ $folder }}/{{ $keys.cert }}
- name: ONCELOG_SSL_KEYFILE
  value: /etc/oncelog/tls/{{ $folder }}/{{ $keys.key }}
{{- end }}
{{- end }}
{{- if $identity.token }}
- name: ONCELOG_TOKEN_FILE
  value: /var/run/secrets/oncelog/token
{{- end }}
{{- end -}}
