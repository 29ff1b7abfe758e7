ALTER TABLE {table:Identifier} DETACH PART {part:String}
