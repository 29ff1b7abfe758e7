SELECT _shard, max(_seq) AS seq
FROM logs
WHERE /* scope */
  AND _seq >= {lowest:UInt64}
  AND _recv >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')
  AND _seq >= {seqs:Array(UInt64)}[_shard + 1]
GROUP BY _shard
