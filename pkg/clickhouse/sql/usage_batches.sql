SELECT _seq AS first, sum(records) AS records
FROM usage FINAL
WHERE _stream = {stream:String} AND _seq >= {from:UInt64}
GROUP BY first
