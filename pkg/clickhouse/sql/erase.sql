DELETE FROM {table:Identifier}
WHERE project = {project:String}
