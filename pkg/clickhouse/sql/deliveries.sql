SELECT event, min(time) AS first, max(time) AS last, max(attempt) AS attempts,
       argMax(toString(state), (time, state)) AS newest,
       argMax(destination, (time, state)), argMax(format, (time, state)),
       argMax(status, (time, state)), argMax(answer, (time, state)), argMax(detail, (time, state))
FROM deliveries
WHERE project = {project:String}
GROUP BY event
HAVING first >= fromUnixTimestamp64Nano({from:Int64}, 'UTC')
   AND first <= fromUnixTimestamp64Nano({to:Int64}, 'UTC')
   AND (first, event) < (fromUnixTimestamp64Nano({before_time:Int64}, 'UTC'), {before_event:String})
   AND ({state:String} = '' OR newest = {state:String})
ORDER BY first DESC, event DESC
LIMIT {limit:UInt32}
