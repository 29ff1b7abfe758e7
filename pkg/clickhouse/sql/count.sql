SELECT partition, sum(stored) AS rows, sum(different) AS distinct, minIf(seq, stored > different), maxIf(seq, stored > different)
FROM (
    SELECT toYYYYMMDD(_recv) AS partition, _seq AS seq, count() AS stored, groupBitmap(_idx) AS different
    FROM {table:Identifier}
    WHERE _shard = {shard:UInt8}
      AND _seq BETWEEN {from:UInt64} AND {to:UInt64}
      AND _recv BETWEEN fromUnixTimestamp64Nano({received_min:Int64}, 'UTC') AND fromUnixTimestamp64Nano({received_max:Int64}, 'UTC')
    GROUP BY partition, seq
)
GROUP BY partition
