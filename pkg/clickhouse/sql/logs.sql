SELECT _shard, _seq, _idx, timestamp, application, severity, severity_number, data, metadata, host, source
FROM logs
WHERE project = {project:String}
  AND timestamp >= fromUnixTimestamp64Nano({first:Int64}, 'UTC')
  AND timestamp <= fromUnixTimestamp64Nano({last:Int64}, 'UTC')
  AND (timestamp, _shard, _seq, _idx) < (fromUnixTimestamp64Nano({before_time:Int64}, 'UTC'), {before_shard:UInt8}, {before_seq:UInt64}, {before_idx:UInt32})
  AND ({contains:String} = '' OR positionCaseInsensitiveUTF8(data, {contains:String}) > 0)
ORDER BY timestamp DESC, _shard DESC, _seq DESC, _idx DESC
LIMIT {limit:UInt32}
