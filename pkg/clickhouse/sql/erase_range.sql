DELETE FROM {table:Identifier} IN PARTITION ID {partition:String}
WHERE _shard = {shard:UInt8}
  AND _seq BETWEEN {from:UInt64} AND {to:UInt64}
  AND _recv BETWEEN fromUnixTimestamp64Nano({received_min:Int64}, 'UTC') AND fromUnixTimestamp64Nano({received_max:Int64}, 'UTC')
  AND _part IN {parts:Array(String)}
