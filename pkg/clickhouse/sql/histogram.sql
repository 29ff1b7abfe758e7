SELECT toUInt32(intDiv(toUnixTimestamp64Nano(timestamp) - {first:Int64}, {width:Int64})) AS bucket,
       toUInt8(if(severity_number > 24, 0, intDiv(severity_number + 3, 4))) AS level,
       count() AS logs
FROM logs
WHERE project = {project:String}
  AND timestamp >= fromUnixTimestamp64Nano({first:Int64}, 'UTC')
  AND timestamp <= fromUnixTimestamp64Nano({last:Int64}, 'UTC')
  AND 1 /* filter */
GROUP BY bucket, level
