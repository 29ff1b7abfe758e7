SELECT _partition_id AS partition, _part AS part
FROM {table:Identifier}
WHERE _shard = {shard:UInt8}
  AND _seq BETWEEN {from:UInt64} AND {to:UInt64}
  AND _recv BETWEEN fromUnixTimestamp64Nano({received_min:Int64}, 'UTC') AND fromUnixTimestamp64Nano({received_max:Int64}, 'UTC')
GROUP BY partition, part
ORDER BY partition, part
