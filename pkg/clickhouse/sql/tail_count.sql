SELECT count() AS logs
FROM logs
WHERE /* scope */
  AND _seq >= {lowest:UInt64}
  AND _recv >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')
  AND (_seq, _idx) > ({seqs:Array(UInt64)}[_shard + 1], {idxs:Array(UInt32)}[_shard + 1])
  AND _seq <= {heads:Array(UInt64)}[_shard + 1]
