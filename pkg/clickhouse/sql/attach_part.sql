ALTER TABLE {table:Identifier} ATTACH PART {part:String}
