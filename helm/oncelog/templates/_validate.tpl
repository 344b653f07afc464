{{/*
What the schema cannot say: relations between values. Every problem is named at once, with what to do.
*/}}

{{- define "oncelog.validate" -}}
{{- $problems := list -}}
{{- $config := .Values.config -}}
{{- $brokers := int .Values.partitionLeader.replicaCount -}}
{{- if gt (int $config.minInsyncReplicas) (int $config.defaultReplicationFactor) -}}
{{- $problems = append $problems (printf "config.minInsyncReplicas (%v) is above config.defaultReplicationFactor (%v): no record could ever be acknowledged" $config.minInsyncReplicas $config.defaultReplicationFactor) -}}
{{- end -}}
{{- range $name := list "defaultReplicationFactor" "internalTopicReplicationFactor" -}}
{{- if gt (int (get $config $name)) $brokers -}}
{{- $problems = append $problems (printf "config.%s (%v) is above partitionLeader.replicaCount (%d): lower it, or add brokers" $name (get $config $name) $brokers) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.etcd.enabled .Values.externalEtcd.endpoints -}}
{{- $problems = append $problems "etcd.enabled and externalEtcd.endpoints are both set: set etcd.enabled=false to use the external one" -}}
{{- end -}}
{{- if not (or .Values.etcd.enabled .Values.externalEtcd.endpoints) -}}
{{- $problems = append $problems "etcd.enabled is false and externalEtcd.endpoints is empty: name an etcd (host:port)" -}}
{{- end -}}
{{- /* Of the cluster's own topics two replicas must be in sync, one where there are fewer than three. */ -}}
{{- $internal := int $config.internalTopicReplicationFactor -}}
{{- range $key := list "partitionLeader" "etcd" -}}
{{- $scope := dict "root" $ "key" $key -}}
{{- include "oncelog.fillScope" $scope -}}
{{- $budget := $scope.config.podDisruptionBudget -}}
{{- $replicas := int $scope.config.replicaCount -}}
{{- $spare := ternary (div (sub $replicas 1) 2) (min (sub (min $replicas (int $config.defaultReplicationFactor)) (int $config.minInsyncReplicas)) (sub $internal (ternary 2 1 (ge $internal 3)))) (eq $key "etcd") | int -}}
{{- if and $budget.enabled (gt $replicas 1) (gt (int $budget.maxUnavailable) (max 1 $spare | int)) -}}
{{- $problems = append $problems (printf "%s.podDisruptionBudget.maxUnavailable (%v) is more than the cluster can spare (%d)" $key $budget.maxUnavailable (max 1 $spare | int)) -}}
{{- end -}}
{{- end -}}
{{- range $key := list "partitionLeader" "coordinator" "pidAllocator" -}}
{{- $scope := dict "root" $ "key" $key -}}
{{- include "oncelog.fillScope" $scope -}}
{{- $drain := ternary (int ($scope.config.drain | default dict).timeoutSeconds) 0 (eq true ($scope.config.drain | default dict).enabled) -}}
{{- $stop := divf ($scope.config.settings.shutdown_grace_ms | default 20000) 1000 | ceil | int -}}
{{- $needed := add $drain (max 20 $stop) | int -}}
{{- if lt (int $scope.config.terminationGracePeriodSeconds) $needed -}}
{{- $problems = append $problems (printf "%s.terminationGracePeriodSeconds (%v) is too short: the drain may take %d s and the stop %d s; %d or more" $key $scope.config.terminationGracePeriodSeconds $drain (max 20 $stop | int) $needed) -}}
{{- end -}}
{{- end -}}
{{- $accounts := dict -}}
{{- range $key := list "partitionLeader" "coordinator" "pidAllocator" "etcd" "jaeger" "jobs" -}}
{{- $scope := dict "root" $ "key" $key -}}
{{- include "oncelog.fillScope" $scope -}}
{{- $wanted := ternary $.Values.auth.kubernetes.enabled (or (not (has $key (list "etcd" "jaeger"))) (get $.Values $key).enabled) (eq $key "jobs") -}}
{{- $made := and $scope.config.serviceAccount.create $wanted -}}
{{- $account := include "oncelog.serviceAccountName" $scope -}}
{{- if and $made (hasKey $accounts $account) -}}
{{- $problems = append $problems (printf "%s would make the service account %s once more: set serviceAccount.create=false and name one that is there, or give each component a name" $key $account) -}}
{{- end -}}
{{- if $made }}{{ $_ := set $accounts $account $key }}{{ end -}}
{{- end -}}
{{- range $part := list "internal" "client" -}}
{{- $tls := get $.Values.tls $part -}}
{{- $given := $tls.existingSecret -}}
{{- if eq $part "internal" -}}
{{- $given = true -}}
{{- range $key := ternary (list "partitionLeader" "coordinator" "pidAllocator" "etcd") (list "partitionLeader" "coordinator" "pidAllocator") $.Values.etcd.enabled -}}
{{- if not (or $tls.existingSecret (get $tls.existingSecrets $key)) }}{{ $given = false }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if and $tls.enabled (not $given) (not $.Values.tls.certManager.enabled) -}}
{{- $problems = append $problems (printf "tls.%s.enabled needs tls.%s.existingSecret, or tls.certManager.enabled" $part $part) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.tls.certManager.enabled (not .Values.tls.certManager.issuerRef.name) -}}
{{- $problems = append $problems "tls.certManager.enabled needs tls.certManager.issuerRef.name" -}}
{{- end -}}
{{- if and .Values.externalEtcd.tls.enabled (not .Values.externalEtcd.tls.existingSecret) -}}
{{- $problems = append $problems "externalEtcd.tls.enabled needs externalEtcd.tls.existingSecret" -}}
{{- end -}}
{{- if and .Values.tracing.enabled (not (include "oncelog.otlpEndpoint" .)) -}}
{{- $problems = append $problems "tracing.enabled needs tracing.otlpEndpoint (http://host:4317), or jaeger.enabled" -}}
{{- end -}}
{{- if and .Values.jaeger.enabled (not .Values.tracing.enabled) -}}
{{- $problems = append $problems "jaeger.enabled without tracing.enabled would show nothing: set tracing.enabled=true" -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled (not .Values.metrics.enabled) -}}
{{- $problems = append $problems "metrics.podMonitor.enabled without metrics.enabled would find nothing: set metrics.enabled=true" -}}
{{- end -}}
{{- if .Values.externalAccess.enabled -}}
{{- $access := .Values.externalAccess -}}
{{- range $key := list "partitionLeader" "coordinator" -}}
{{- $own := get $access $key -}}
{{- $replicas := int (get $.Values $key).replicaCount -}}
{{- $hosts := len $own.advertisedHosts -}}
{{- if and (eq $hosts 0) (not $access.domain) -}}
{{- $problems = append $problems (printf "externalAccess.%s.advertisedHosts is empty and there is no externalAccess.domain: clients outside would not know where to go" $key) -}}
{{- else if and (gt $hosts 1) (lt $hosts $replicas) -}}
{{- $problems = append $problems (printf "externalAccess.%s.advertisedHosts names %d hosts for %d pods: one for all, or one for each" $key $hosts $replicas) -}}
{{- end -}}
{{- $ports := len $own.advertisedPorts -}}
{{- if and (gt $ports 0) (lt $ports $replicas) -}}
{{- $problems = append $problems (printf "externalAccess.%s.advertisedPorts names %d ports for %d pods" $key $ports $replicas) -}}
{{- end -}}
{{- if and (eq $hosts 1) (gt $replicas 1) (eq $ports 0) (ne $access.service.type "NodePort") -}}
{{- $problems = append $problems (printf "externalAccess.%s.advertisedHosts names one host, and all %d pods would be told the same port: name a host for each, or advertisedPorts" $key $replicas) -}}
{{- end -}}
{{- if and (eq $access.service.type "NodePort") (eq $ports 0) (eq (int $own.firstNodePort) 0) -}}
{{- $problems = append $problems (printf "externalAccess with NodePort needs externalAccess.%s.firstNodePort (or advertisedPorts): clients outside must be told the port" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $problems = concat $problems (include "oncelog.authProblems" . | fromYamlArray) -}}
{{- $own := include "oncelog.selectorLabels" (dict "root" . "component" "any") | fromYaml | keys -}}
{{- range $key := concat $own (list "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart") -}}
{{- if hasKey $.Values.commonLabels $key -}}
{{- $problems = append $problems (printf "commonLabels names %s, which the chart sets itself: choose another name" $key) -}}
{{- end -}}
{{- end -}}
{{- range $key := list "podDefaults" "partitionLeader" "coordinator" "pidAllocator" "etcd" "jaeger" "jobs" -}}
{{- range $label := $own -}}
{{- if hasKey ((get $.Values $key).podLabels | default dict) $label -}}
{{- $problems = append $problems (printf "%s.podLabels names %s, which the chart sets itself: choose another name" $key $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $listeners := dict -}}
{{- range $name, $listener := omit .Values.listeners "host" -}}
{{- $port := toString $listener.port -}}
{{- with get $listeners $port -}}
{{- $problems = append $problems (printf "listeners.%s.port and listeners.%s.port are both %s" . $name $port) -}}
{{- end -}}
{{- $_ := set $listeners $port $name -}}
{{- end -}}
{{- if $problems -}}
{{- fail (printf "\n\noncelog: these values do not fit together:\n  - %s\n" (join "\n  - " $problems)) -}}
{{- end -}}
{{- end -}}
