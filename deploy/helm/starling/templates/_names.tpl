{{- define "starling.labels" -}}
app.kubernetes.io/name: starling
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
{{- define "starling.selector" -}}
app.kubernetes.io/name: starling
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
