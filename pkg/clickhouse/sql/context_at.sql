SELECT _shard, _seq, _idx, timestamp, application, severity, severity_number, data, metadata, host, source
FROM logs
WHERE /* scope */
  AND _shard = {at_shard:UInt8} AND _seq = {at_seq:UInt64} AND _idx = {at_idx:UInt32}
LIMIT 1
