SELECT _seq AS seq, toUnixTimestamp64Nano(_recv) AS received
FROM {table:Identifier}
WHERE _shard = {shard:UInt8}
  AND _seq BETWEEN {from:UInt64} AND {to:UInt64}
  AND _recv BETWEEN fromUnixTimestamp64Nano({received_min:Int64}, 'UTC') AND fromUnixTimestamp64Nano({received_max:Int64}, 'UTC')
  AND (SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = {table:String} AND engine = 'MergeTree') = 1
GROUP BY seq, received
HAVING count() > groupBitmap(_idx)
ORDER BY seq, received
LIMIT {limit:UInt32}
