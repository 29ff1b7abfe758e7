SELECT time, attempt, toString(state), destination, format, status, answer, detail
FROM deliveries
WHERE project = {project:String}
  AND event = {event:String}
GROUP BY ALL
ORDER BY time, attempt, toString(state)
LIMIT {limit:UInt32}
