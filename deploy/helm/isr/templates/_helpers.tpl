{{- define "isr.fullname" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "isr.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "isr.labels" -}}
{{ include "isr.selector" . }}
{{ include "isr.commonLabels" . }}
{{- end }}

{{- define "isr.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "isr.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "isr.fullname" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end -}}
{{- end }}

{{- define "isr.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{- define "isr.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "isr.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "isr.table" }}{{ required "store.table: the name of the table of DynamoDB, made by isr table create" .Values.store.table }}{{ end }}
{{- define "isr.bucket" }}{{ required "store.bucket: the name of the bucket of S3" .Values.store.bucket }}{{ end }}
{{- define "isr.region" }}{{ required "store.region: the AWS region of the table and the bucket, such as eu-west-1" .Values.store.region }}{{ end }}

{{- /* isr.yaml: what the chart sets, and then the fields of the value config. */ -}}
{{- define "isr.config" -}}
{{- $_ := required "hosts: the hosts of the site, such as [example.com, www.example.com]" (first .Values.hosts) -}}
{{- $file := dict
  "listen" (list (dict "address" ":8080" "trusted_proxies" .Values.trustedProxies))
  "hosts" .Values.hosts
  "public_scheme" "https"
  "origins" (dict "site" (dict "url" (required "origin: the URL of the site behind the cache, such as http://site:3000" .Values.origin)))
  "store" (dict "data" "/var/lib/isr" "table" (include "isr.table" .) "bucket" (include "isr.bucket" .) "region" (include "isr.region" .))
  "health" (dict "address" ":9181" "drain" "15s")
  "metrics" (dict "address" ":9182")
  "peer" (dict "address" "${POD_IP}:7946" "secret" (dict "file" "/run/secrets/isr/peer"))
  "admin" (dict "address" "127.0.0.1:9180" "token" (dict "file" "/run/secrets/isr/admin"))
-}}
{{- toYaml (mergeOverwrite $file (deepCopy .Values.config)) -}}
{{- end }}
