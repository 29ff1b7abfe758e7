SELECT _shard, _seq, _idx, timestamp, application, severity, severity_number, data, metadata, host, source
FROM logs
WHERE project = {project:String}
  AND timestamp >= fromUnixTimestamp64Nano({first:Int64}, 'UTC')
  AND timestamp <= fromUnixTimestamp64Nano({last:Int64}, 'UTC')
  AND 1 /* filter */
  AND _shard = {at_shard:UInt8} AND _seq = {at_seq:UInt64} AND _idx = {at_idx:UInt32}
LIMIT 1
