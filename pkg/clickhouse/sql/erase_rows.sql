DELETE FROM {table:Identifier}
WHERE project = {project:String} AND _recv < fromUnixTimestamp64Nano({before:Int64}, 'UTC')
