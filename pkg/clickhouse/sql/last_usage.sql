SELECT max(_seq)
FROM usage
WHERE _stream = {stream:String}
  AND _seq > {above:UInt64}
