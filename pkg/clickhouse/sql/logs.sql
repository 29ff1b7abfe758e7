SELECT _shard, _seq, _idx, timestamp, application, severity, severity_number, data, metadata, host, source
FROM logs
WHERE /* scope */
  AND (timestamp, _shard, _seq, _idx) < (fromUnixTimestamp64Nano({at_time:Int64}, 'UTC'), {at_shard:UInt8}, {at_seq:UInt64}, {at_idx:UInt32})
ORDER BY timestamp DESC, _shard DESC, _seq DESC, _idx DESC
LIMIT {limit:UInt32}
