SELECT _shard, toInt64(toUnixTimestamp(toStartOfHour(_recv))) AS start, count(), min(_seq), max(_seq)
FROM {table:Identifier}
WHERE _recv >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')
GROUP BY _shard, start
