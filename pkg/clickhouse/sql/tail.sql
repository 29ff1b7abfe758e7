SELECT _shard, _seq, _idx, timestamp, application, severity, severity_number, data, metadata, host, source
FROM logs
WHERE /* scope */
  AND _seq >= {lowest:UInt64}
  AND _recv >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')
  AND (_seq, _idx) > ({seqs:Array(UInt64)}[_shard + 1], {idxs:Array(UInt32)}[_shard + 1])
  AND _seq <= {heads:Array(UInt64)}[_shard + 1]
ORDER BY _recv DESC, _shard DESC, _seq DESC, _idx DESC
LIMIT {limit:UInt32}
