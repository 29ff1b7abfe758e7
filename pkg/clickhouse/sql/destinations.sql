SELECT destination, argMax(format, time), uniqExactIf(event, state = 'delivered'), uniqExactIf(event, state = 'failed'),
       max(time) AS last, argMax(toString(state), (time, state)), argMax(status, (time, state)), argMax(detail, (time, state))
FROM deliveries
WHERE time >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')
  AND destination != ''
  AND state != 'coalesced'
GROUP BY destination
ORDER BY last DESC, destination
LIMIT {limit:UInt32}
