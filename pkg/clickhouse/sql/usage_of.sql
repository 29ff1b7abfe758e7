SELECT project, measure, reason, records, bytes, _seq
FROM usage FINAL
WHERE _stream = {stream:String}
  AND hour = toDateTime({hour:Int64}, 'UTC')
