{{/*
What cannot work about who may come in and what he may do: a YAML list of sentences, for _validate.tpl.
*/}}

{{- define "oncelog.authProblems" -}}
{{- $problems := list -}}
{{- $auth := .Values.auth -}}
{{- $client := .Values.tls.client -}}
{{- $on := eq $auth.authorization "acl" -}}
{{- $identity := include "oncelog.jobIdentity" . | fromYaml -}}
{{- $used := list -}}
{{- range $name, $given := dict "superUsers" $auth.superUsers "principalRules" $auth.principalRules "users" $auth.users "roles" $auth.roles "acls" $auth.acls "jwt.issuer" $auth.jwt.issuer "kubernetes.enabled" $auth.kubernetes.enabled "removeUndeclared" $auth.removeUndeclared -}}
{{- if $given }}{{ $used = append $used (printf "auth.%s" $name) }}{{ end -}}
{{- end -}}
{{- if and $used (not $on) -}}
{{- $problems = append $problems (printf "%s would do nothing while auth.authorization is none: set auth.authorization=acl" (join ", " $used)) -}}
{{- end -}}
{{- if and $auth.kubernetes.enabled $auth.jwt.issuer -}}
{{- $problems = append $problems "auth.kubernetes.enabled and auth.jwt.issuer are both set: brokers take tokens of one issuer; choose one" -}}
{{- end -}}
{{- if and $auth.kubernetes.enabled (eq (include "oncelog.jobAccount" .) "default") -}}
{{- $problems = append $problems "the chart's jobs are super users, and `default` is the account of every pod that names none: set jobs.serviceAccount.create=true, or jobs.serviceAccount.name to one for them alone" -}}
{{- end -}}
{{- if and $auth.jwt.issuer (not $auth.jwt.audience) -}}
{{- $problems = append $problems "auth.jwt.issuer needs auth.jwt.audience: without it tokens made for others would count here" -}}
{{- end -}}
{{- $jwks := $auth.jwt.jwks -}}
{{- if and $jwks.existingConfigMap $jwks.existingSecret -}}
{{- $problems = append $problems "auth.jwt.jwks.existingConfigMap and existingSecret are both set: choose one" -}}
{{- end -}}
{{- $file := or $jwks.existingConfigMap $jwks.existingSecret -}}
{{- if and $auth.jwt.issuer (not $file) (not $jwks.url) -}}
{{- $problems = append $problems "auth.jwt.issuer needs its keys: auth.jwt.jwks.url, existingConfigMap or existingSecret" -}}
{{- end -}}
{{- if and $jwks.url $file -}}
{{- $problems = append $problems "auth.jwt.jwks names a URL and a file: choose one" -}}
{{- end -}}
{{- if and (or $auth.kubernetes.enabled $auth.jwt.issuer $auth.users) (not $client.enabled) -}}
{{- $problems = append $problems "tokens and passwords go over TLS alone: set tls.client.enabled=true" -}}
{{- end -}}
{{- if and $auth.principalRules (not $client.requireClientCertificate) -}}
{{- $problems = append $problems "auth.principalRules look at certificates that nobody shows: set tls.client.requireClientCertificate=true" -}}
{{- end -}}
{{- if and $client.requireClientCertificate (not $client.enabled) -}}
{{- $problems = append $problems "tls.client.requireClientCertificate needs tls.client.enabled=true" -}}
{{- end -}}
{{- $internal := .Values.tls.internal -}}
{{- $manager := .Values.tls.certManager -}}
{{- if and $on $client.requireClientCertificate $internal.enabled $manager.enabled (not $internal.existingSecret) (not $client.existingSecret) (eq (include "oncelog.clientIssuer" .) (toYaml $manager.issuerRef)) -}}
{{- $problems = append $problems "one issuer signs services and clients, so any client's certificate opens etcd: set tls.certManager.clientIssuerRef to another one" -}}
{{- end -}}
{{- if and .Values.tls.internal.serviceRules (ne .Values.tls.internal.serviceRules "-") (not .Values.tls.internal.enabled) -}}
{{- $problems = append $problems "tls.internal.serviceRules look at certificates of services: set tls.internal.enabled=true" -}}
{{- end -}}
{{- if and $on $identity.token (not $identity.principal) -}}
{{- $problems = append $problems "the chart cannot know whom the token of its jobs names: set auth.jobs.principal=User:NAME" -}}
{{- else if and $on (not $identity.token) $identity.certificate (or $auth.jobs.certificateSecret (include "oncelog.jobCertificate" .)) (not $identity.principal) -}}
{{- $problems = append $problems "the chart cannot know whom the certificate of its jobs names: set auth.jobs.principal=User:NAME, as auth.principalRules make it" -}}
{{- else if and $on (not $identity.token) (not (and $identity.certificate (or $auth.jobs.certificateSecret (include "oncelog.jobCertificate" .)))) -}}
{{- $jobs := list -}}
{{- if .Values.tests.enabled }}{{ $jobs = append $jobs "helm test (tests.enabled)" }}{{ end -}}
{{- if .Values.topics }}{{ $jobs = append $jobs "topics" }}{{ end -}}
{{- if include "oncelog.declaredAccess" . }}{{ $jobs = append $jobs "auth.users, roles and acls" }}{{ end -}}
{{- if .Values.jobs.upgradeCheck }}{{ $jobs = append $jobs "jobs.upgradeCheck" }}{{ end -}}
{{- if gt (int .Values.partitionLeader.decommission.fromReplicaCount) (int .Values.partitionLeader.replicaCount) }}{{ $jobs = append $jobs "partitionLeader.decommission" }}{{ end -}}
{{- with $jobs -}}
{{- $problems = append $problems (printf "with auth.authorization=acl the chart's own jobs must be somebody (%s): set auth.kubernetes.enabled, auth.jobs.tokenSecret, or auth.jobs.certificateSecret with tls.client.requireClientCertificate; or leave these jobs out" (join ", " .)) -}}
{{- end -}}
{{- end -}}
{{- range $index, $rule := $auth.acls -}}
{{- $resources := list -}}
{{- range $key := list "topics" "topicPrefixes" "groups" "groupPrefixes" "transactionalIds" "transactionalIdPrefixes" "appIds" "appIdPrefixes" "cluster" -}}
{{- if get $rule $key }}{{ $resources = append $resources $key }}{{ end -}}
{{- end -}}
{{- if and $rule.role (or $rule.operations $resources $rule.deny $rule.host (and $rule.on $rule.onPrefix)) -}}
{{- $problems = append $problems (printf "auth.acls[%d]: a role goes with `on` or `onPrefix` alone" $index) -}}
{{- else if and (not $rule.role) (or (not $rule.operations) (not $resources) $rule.on $rule.onPrefix) -}}
{{- $problems = append $problems (printf "auth.acls[%d]: give `operations` and a resource (topics, groups, ..., cluster), or a `role`" $index) -}}
{{- end -}}
{{- end -}}
{{- toYaml $problems -}}
{{- end -}}
