SELECT max(_seq)
FROM {table:Identifier}
WHERE _shard = {shard:UInt8}
  AND _seq > {above:UInt64}
