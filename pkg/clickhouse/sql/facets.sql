SELECT toUInt8(multiIf(grouping(application) = 0, 0, grouping(severity) = 0, 1, grouping(host) = 0, 2, grouping(source) = 0, 3, 4)) AS facet,
       concat(application, severity, host, source) AS value,
       count() AS logs
FROM logs
WHERE /* scope */
GROUP BY GROUPING SETS ((application), (severity), (host), (source), ())
ORDER BY facet, logs DESC, value
LIMIT {limit:UInt32} BY facet
